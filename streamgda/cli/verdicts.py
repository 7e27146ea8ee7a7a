"""Whether what is saved can predict, and if not, why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from streamgda.cli.contents import statistics_of
from streamgda.cli.models import NAMES


def verdicts_on(saved: Any) -> dict[str, str | None]:
    """Why a model cannot predict, or each kind of model cannot be made of statistics; None where it can."""
    import streamgda
    from streamgda.scoring import check_model

    if saved is not statistics_of(saved):
        return {type(saved).__name__: _fault_of(check_model, saved)}
    return {name: _fault_of(getattr(streamgda, name).from_statistics, saved) for name in NAMES.values()}


def _fault_of(make: Callable[[Any], object], saved: Any) -> str | None:
    try:
        make(saved)
    except ValueError as error:
        return str(error)
    return None


def warn_of_faults(saved: Any) -> None:
    """Say that a model which was saved cannot predict yet."""
    if saved is statistics_of(saved):
        return
    for fault in verdicts_on(saved).values():
        if fault is not None:
            click.echo(f"Warning: it cannot predict yet: {fault}", err=True)
