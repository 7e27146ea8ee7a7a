"""The command ``streamgda`` and its subcommands."""

from __future__ import annotations

import click

import streamgda
from streamgda.cli.errors import OneLineErrors
from streamgda.cli.learn import fit, merge, update
from streamgda.cli.predict import evaluate, predict
from streamgda.cli.refresh import refresh
from streamgda.cli.saved import inspect
from streamgda.cli.search import search


@click.group(
    "streamgda",
    cls=OneLineErrors,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(streamgda.__version__)
@click.pass_context
def main(context: click.Context) -> None:
    """Gaussian discriminant analysis of data that does not fit in memory or never stops coming.

    Learn models from Parquet datasets and Zarr stores of any size in one read, save them as small Parquet
    files, update them with more data, and predict:

    \b
      streamgda fit monday.parquet --target kind --out model.parquet
      streamgda update model.parquet tuesday.parquet --target kind
      streamgda predict model.parquet wednesday.parquet --out scored
      streamgda evaluate model.parquet labelled.parquet --target kind
      streamgda COMMAND --help

    The exit code is 0 if all went well, 1 for bad data, 2 for bad usage, 3 for drift and 130 after Ctrl-C.
    Errors are one line; --debug, which each command takes, shows where they come from.

    For completion by the tab key: eval "$(_STREAMGDA_COMPLETE=bash_source streamgda)" in ~/.bashrc;
    zsh_source and fish_source likewise.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (fit, search, update, merge, refresh, predict, evaluate, inspect):
    main.add_command(command)
