"""Errors and warnings in one line, Ctrl-C, and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from streamgda.cli.words import as_options
from streamgda.data.storage.paths import one_line
from streamgda.data.storage.secrets import chain_of, concealing

_EXPECTED = (ValueError, TypeError, OSError, RuntimeError, ImportError, LookupError)

_AFTER = "interrupted; no file is half-written, and predict and refresh go on where they stopped"


class Interrupted(click.ClickException):
    """The error raised at Ctrl-C."""

    exit_code = 130  # by the convention of shells: 128 and the number of SIGINT


class Refused(click.ClickException):
    """The error of a refresh that is refused, since files have drifted too far."""

    exit_code = 3


class Skipped(click.ClickException):
    """The error of a refresh that has left out files which could not be read."""

    exit_code = 4


class OneLineErrors(click.Group):
    """A group of commands whose errors are one line on stderr.

    The exit code is 1 for an error of the library, the filesystem or a cluster, 2 for bad usage, 3 for
    a refresh that is refused, 4 for one that has skipped files, and 130 after Ctrl-C. With ``--debug`` the
    traceback is shown.
    """

    def main(self, args: Sequence[str] | None = None, *others: Any, **extra: Any) -> Any:
        """Run the command line and leave with its exit code."""
        words = (sys.argv[1:] if args is None else list(args)) or ["--help"]
        run = partial(super().main, words, *others, **{**extra, "standalone_mode": False})
        try:
            if "--debug" in words:  # tracebacks are no messages, in which `one_line` hides what is secret
                run = partial(concealing, words, run)
            sys.exit(run())
        except click.ClickException as error:
            message, command = one_line(error.format_message()), getattr(error, "ctx", None)
            stop = "" if message.endswith((".", "?")) else "."
            message += f"{stop} See '{command.command_path} --help'" if command else ""
            click.echo(f"Error: {message}", err=True)
            threads = set(threading.enumerate()) - {threading.main_thread()}
            if isinstance(error, Interrupted) and not all(thread.daemon for thread in threads):
                sys.stdout.flush()
                os._exit(error.exit_code)  # a normal exit would wait for the threads
            sys.exit(error.exit_code)

    def invoke(self, context: click.Context) -> Any:
        """Run a command, and convert its exceptions to errors of one line."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = partial(_show, context.meta)  # worker threads have no context
                return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BaseException as error:
            # A library may raise another error because of Ctrl-C.
            if any(isinstance(one, KeyboardInterrupt) for one in chain_of(error)):
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends the process at once
                raise Interrupted(_AFTER) from None
            is_told = isinstance(error, Exception) and not isinstance(error, BrokenPipeError)  # as by head
            if not is_told or context.meta.get("streamgda.report", {}).get("debug"):
                raise
            raise click.ClickException(describe(error)) from error


def describe(error: BaseException) -> str:
    """The message of an error, in one line."""
    message = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    if isinstance(error, OSError) and error.strerror and error.filename:
        message = f"{error.filename}: {error.strerror}"
    # Statistics that a model keeps for the next call end with the process.
    notes = [note for note in getattr(error, "__notes__", ()) if "statistics_" not in note]
    message = as_options(one_line("; ".join(filter(None, [message, *notes]))))
    if isinstance(error, _EXPECTED) and message and not notes:
        return message
    return f"{type(error).__name__}: {message or 'no more is known'}" + " (--debug shows where)" * (not notes)


def _show(meta: Mapping[str, Any], message: Warning | str, *_: Any, **__: Any) -> None:
    if not meta.get("streamgda.report", {}).get("quiet"):
        click.echo(f"Warning: {as_options(one_line(str(message)))}", err=True)


def attempt(call: Callable[[], Any]) -> tuple[Any, str | None]:
    """What a call returns and None, or None and the message of its error."""
    try:
        return call(), None
    except (ValueError, OSError) as error:
        return None, describe(error)
