"""The options that say how a model learns from rows in which features are missing here and there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from streamgda.cli.options import Number, Option, bundled


@dataclass(frozen=True)
class EM:
    """How many patterns are kept, and when EM stops where there are more; None is the library's default."""

    max_patterns: int | None
    max_reads: int | None
    em_tol: float | None

    def options(self, *, once: bool) -> dict[str, Any]:
        """The arguments of `accumulate`; with `once`, of a single read."""
        from streamgda.statistics.incomplete.reads import MAX_READS

        given = {name: value for name, value in vars(self).items() if value is not None}
        return {"max_reads": MAX_READS, **given, **({"max_reads": 1} if once else {})}


_OPTIONS: list[Option] = [
    click.option(
        "--max-patterns",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many patterns of missing features are kept.  [default: 256]",
    ),
    click.option(
        "--max-reads",
        type=click.IntRange(min=1),
        metavar="N",
        help="How often rows with more patterns are read, once for each step of EM.  [default: 10]",
    ),
    click.option(
        "--em-tol",
        type=Number(min=0),
        metavar="X",
        help="Stop when a read changes no parameter by more than X standard deviations.  [default: 0.005]",
    ),
]

em_options = bundled("em", EM, _OPTIONS)
