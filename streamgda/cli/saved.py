"""What is in statistics or a model, as a document and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgda.statistics.base import Statistics
from collections.abc import Callable

import click

from streamgda.cli.options import NAMES, Data

_MOST_CLASSES = 20

_MOST_FEATURES = 10


def statistics_of(saved: Any) -> Statistics:
    """The statistics of a model, or statistics as they are."""
    statistics: Statistics = getattr(saved, "statistics_", saved)
    return statistics


def document_of(saved: Any) -> dict[str, Any]:
    """What is known of statistics or a model, in plain values."""
    statistics = statistics_of(saved)
    sums = zip(statistics.classes, statistics.counts, statistics.weights, strict=True)
    return {
        "kind": type(saved).__name__,
        "parameters": saved.get_params() if saved is not statistics else {},
        "covariance_type": statistics.covariance_type,
        "fourth_moments": statistics.has_fourth_moments,
        "exact": statistics.exact,
        "n_rows": statistics.n_rows,
        "n_dropped": statistics.n_dropped,
        "n_features": statistics.n_features,
        "feature_names": statistics.feature_names,
        "classes": [{"label": label, "count": n, "weight": weight} for label, n, weight in sums],
    }


def counted(number: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def summary_of(saved: Any) -> str:
    """One line on statistics or a model."""
    statistics = statistics_of(saved)
    dropped = f" ({statistics.n_dropped:,} dropped)" if statistics.n_dropped else ""
    return (
        f"{type(saved).__name__}: {statistics.n_rows:,} rows{dropped}, "
        f"{len(statistics.classes):,} classes, {statistics.n_features:,} features"
    )


def text_of(saved: Any) -> str:
    """What is known of statistics or a model, to be read."""
    statistics = statistics_of(saved)
    held = [f"{statistics.covariance_type} covariance"]
    held += ["fourth moments"] if statistics.has_fourth_moments else []
    held += ["exact sums"] if statistics.exact else []
    lines = [
        summary_of(saved),
        ", ".join(held),
        f"features: {_features(statistics)}",
        "",
        _classes(statistics),
    ]
    if saved is not statistics:
        lines.insert(1, f"parameters: {', '.join(f'{k}={v}' for k, v in saved.get_params().items())}")
    return "\n".join(lines)


def _features(statistics: Statistics) -> str:
    names = statistics.feature_names
    if names is None:
        return f"{statistics.n_features:,} without names"
    more = len(names) - _MOST_FEATURES
    return ", ".join(names[:_MOST_FEATURES]) + (f" and {more:,} more" if more > 0 else "")


def _classes(statistics: Statistics) -> str:
    import pandas as pd

    columns = {"class": statistics.classes, "rows": statistics.counts, "weight": statistics.weights}
    frame = pd.DataFrame(columns).set_index("class")
    more = len(frame) - _MOST_CLASSES
    shown: str = frame.head(_MOST_CLASSES).to_string(float_format="{:.10g}".format)
    return shown + (f"\n... and {more:,} more classes" if more > 0 else "")


def loaded_model(path: str, data: Data | None = None) -> Any:
    """A saved model, which takes rows with missing values as the options of the data say.

    Raises
    ------
    ValueError
        If statistics are saved there, of which a model has yet to be made.
    """
    from streamgda import load

    model = load(path)
    if model is statistics_of(model):
        raise ValueError(
            f"{path} holds statistics and no model; make one of them: "
            f"streamgda merge {path} --model qda --out FILE"
        )
    if data is not None and data.missing is not None:
        model.set_params(missing="marginal" if data.missing == "marginal" else "raise")
    return model


def verdicts_on(saved: Any) -> dict[str, str | None]:
    """Why a model cannot predict, or each kind of model cannot be made of statistics; None where it can."""
    import streamgda
    from streamgda.scoring.inference import check_model

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
