"""The arguments that benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser_of(description: str | None, **numbers: int) -> argparse.ArgumentParser:
    """A parser of whole numbers with these names and defaults, and of whether the results are kept."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in numbers.items():
        made.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=default, help=f"default: {default:,}"
        )
    made.add_argument("--print-only", action="store_true", help="leave the kept results as they are")
    return made


def add_data(made: argparse.ArgumentParser) -> None:
    """Let the user say where the data is made."""
    made.add_argument("--data", type=Path, default=Path("bench-data"), help="where the data is made")


def add_growth(made: argparse.ArgumentParser) -> None:
    """Let the user say for how many rows a table of time and memory is."""
    made.add_argument("--scale", type=float, nargs="*", default=[1, 4, 16], help="millions of rows")


def size(options: argparse.Namespace) -> str:
    """The size of the data, for a title."""
    return f"{options.rows:,} × {options.features} float64, {options.classes:,} classes"
