"""Errors and warnings in one line, Ctrl-C, and exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from streamgda.blocks.options import OPTIONS, RENAMED
from streamgda.blocks.wording import counted
from streamgda.storage.paths import without_options
from streamgda.storage.secrets import concealing

# The keys of what commands note in `click.Context.meta`.
DEBUG = "streamgda.debug"
QUIET = "streamgda.quiet"
_INTERRUPTED = 130  # by the convention of shells: 128 and the number of SIGINT

_EXPECTED = (ValueError, TypeError, OSError, RuntimeError, ImportError, LookupError)


class Interrupted(click.ClickException):
    """The error raised at Ctrl-C. Its message says what remains of the work."""

    exit_code = _INTERRUPTED


class Quarantined(click.ClickException):
    """The error for files that exceed the limits of drift. The user must accept or reject them."""

    exit_code = 3

    def __init__(self, alarms: Mapping[str, str]) -> None:
        (path, alarm), more = next(iter(alarms.items())), len(alarms) - 1
        others = f" and {counted(more, 'more file')}" if more else ""
        super().__init__(
            f"quarantined, and in no model: {path} ({alarm}){others}; find out why, and refresh with "
            "--accept FILE or --reject FILE"
        )


class OneLineErrors(click.Group):
    """A group of commands whose errors are one line on stderr.

    The exit code is 1 for an error of the library, the filesystem or a cluster, 2 for bad usage, 3 for
    quarantined files, and 130 after Ctrl-C. With ``--debug`` the traceback is shown.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        """The commands in the order in which they were added."""
        return list(self.commands)

    def main(self, args: Sequence[str] | None = None, *others: Any, **extra: Any) -> Any:
        """Run the command line and leave with its exit code."""
        words = sys.argv[1:] if args is None else list(args)
        run = partial(super().main, words, *others, **{**extra, "standalone_mode": False})
        sys.exit(concealing(words, lambda: _status_of(run)))

    def invoke(self, context: click.Context) -> Any:
        """Run a command, and convert its exceptions to errors of one line."""
        try:
            with warnings.catch_warnings(), interruptible("no file is half-written"):
                warnings.showwarning = partial(_show, context.meta)  # worker threads have no context
                return super().invoke(context)
        except click.NoSuchOption as error:
            _check_not_renamed(error)
            raise
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if context.meta.get(DEBUG) or _is_closed_pipe(error):
                raise
            raise click.ClickException(describe(error)) from error


def _check_not_renamed(error: click.NoSuchOption) -> None:
    """Raise UsageError, with the new spelling, if an unknown option is one of an older version."""
    option, name = RENAMED.get(error.option_name.lstrip("-").replace("-", "_"), ("", ""))
    options = {parameter.name for parameter in error.ctx.command.params} if error.ctx else set()
    if option not in options:
        return
    if f"{option}__{name}" in options:
        now = f"--{option}-{name}"
    elif option == "missing":
        now = f"--missing '{OPTIONS[option].word} {name}=...'"
    else:
        now = f"{option}__{name}=..., in --try of search"
    raise click.UsageError(f"{error.option_name} is now {now}", error.ctx) from error


def _status_of(run: Callable[[], Any]) -> Any:
    """Run the command line, and return its exit code."""
    try:
        return run()
    except click.ClickException as error:
        click.echo(f"Error: {_message_of(error)}", err=True)
        if isinstance(error, Interrupted):
            _end_threads(error.exit_code)
        return error.exit_code


@contextmanager
def interruptible(what_remains: str) -> Iterator[None]:
    """Convert Ctrl-C to an error that says what remains; a second Ctrl-C ends the process at once."""
    try:
        yield
    except Interrupted:
        raise  # an inner block has said what remains
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise Interrupted(f"interrupted; {what_remains}") from None


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, or was raised by an extension because of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def describe(error: BaseException) -> str:
    """The message of an error, in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        message = f"{error.filename}: {error.strerror}"
    elif isinstance(error, KeyError) and error.args:
        message = str(error.args[0])  # str(error) has quotes around it
    else:
        message = str(error)
    message = _folded(message)
    # Statistics that a model keeps for the next call end with the process.
    notes = [_folded(note) for note in getattr(error, "__notes__", ()) if "statistics_" not in note]
    if notes:
        return f"{type(error).__name__}: {'; '.join(filter(None, [message, *notes]))}"
    if isinstance(error, _EXPECTED) and message:
        return message
    return f"{type(error).__name__}: {message or 'no more is known'} (--debug shows where)"


def _message_of(error: click.ClickException) -> str:
    message = _folded(error.format_message())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        stop = "" if message.endswith("?") else "."
        return f"{message.rstrip('.')}{stop} See '{error.ctx.command_path} --help'"
    return message


def _folded(text: str) -> str:
    return " ".join(without_options(text).split())


def _is_closed_pipe(error: Exception) -> bool:
    """Whether the reader of the output has closed the pipe, as ``head`` does. Click then exits silently."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def warn(message: str) -> None:
    """Show a warning in one line, but not with ``--quiet``."""
    _show(click.get_current_context().meta, message)


def _show(meta: Mapping[str, Any], message: Warning | str, *_: Any, **__: Any) -> None:
    if not meta.get(QUIET):
        click.echo(f"Warning: {_folded(str(message))}", err=True)


def _end_threads(status: int) -> None:
    """End the process at once if threads are still running. A normal exit would wait for them."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
