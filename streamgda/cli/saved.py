"""Load and describe saved models and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from streamgda.blocks.wording import counted
from streamgda.cli.data import Data
from streamgda.cli.errors import describe, warn
from streamgda.cli.models import MODELS

if TYPE_CHECKING:
    from streamgda.estimators.classifier import GaussianClassifier
    from streamgda.statistics.base import Statistics
    from streamgda.statistics.incomplete.state import IncompleteStatistics

Saved: TypeAlias = "GaussianClassifier[Any] | Statistics"

_MOST_CLASSES = 20

_MOST_FEATURES = 10

_MOST_PATTERNS = 20


def load_model(path: str, data: Data | None = None) -> GaussianClassifier[Any]:
    """Load a model, and let it treat missing values as the options of the data say.

    Raises
    ------
    ValueError
        If the file holds statistics, from which a model has yet to be made.
    """
    from streamgda import load

    model = load(path)
    if not is_model(model):
        raise ValueError(
            f"{path} holds statistics and no model; make one of them: "
            f"streamgda merge {path} --model qda --out FILE"
        )
    if data is not None and data.missing is not None:
        model.set_params(missing="marginal" if data.missing == "marginal" else "raise")
    return model


def is_model(saved: Saved) -> TypeGuard[GaussianClassifier[Any]]:
    """Whether this is a model, and not statistics."""
    return hasattr(saved, "statistics_")


def statistics_of(saved: Saved) -> Statistics:
    """The statistics of a model; statistics themselves."""
    statistics: Statistics = getattr(saved, "statistics_", saved)
    return statistics


# ---------------------------------------------------------------------- what it holds


def document_of(saved: Saved) -> dict[str, Any]:
    """Describe a model or statistics in plain values, for JSON."""
    statistics = statistics_of(saved)
    sums = zip(statistics.classes, statistics.counts, statistics.weights, strict=True)
    return {
        "kind": type(saved).__name__,
        "parameters": _parameters(saved),
        "covariance_type": statistics.covariance_type,
        "fourth_moments": statistics.has_fourth_moments,
        "exact": statistics.exact,
        "n_rows": statistics.n_rows,
        "n_dropped": statistics.n_dropped,
        "n_features": statistics.n_features,
        "feature_names": statistics.feature_names,
        **_patterns_document(statistics),
        "classes": [{"label": label, "count": n, "weight": weight} for label, n, weight in sums],
    }


def summary_of(saved: Saved) -> str:
    """Describe a model or statistics in one line."""
    statistics = statistics_of(saved)
    dropped = f" ({statistics.n_dropped:,} dropped)" if statistics.n_dropped else ""
    return (
        f"{type(saved).__name__}: {counted(statistics.n_rows, 'row')}{dropped}, "
        f"{counted(len(statistics.classes), 'class')}, {counted(statistics.n_features, 'feature')}"
    )


def text_of(saved: Saved) -> str:
    """Describe a model or statistics in several lines."""
    statistics = statistics_of(saved)
    parameters = [f"{name}={value}" for name, value in _parameters(saved).items()]
    held = [f"{statistics.covariance_type} covariance"]
    held += ["fourth moments"] if statistics.has_fourth_moments else []
    held += ["exact sums"] if statistics.exact else []
    return "\n".join(
        [
            summary_of(saved),
            *([f"parameters: {', '.join(parameters)}"] if parameters else []),
            ", ".join(held),
            f"features: {_features(statistics)}",
            "",
            _classes(statistics),
            *_patterns_text(statistics),
        ]
    )


def _has_patterns(statistics: Statistics) -> TypeGuard[IncompleteStatistics]:
    """Whether these tell which features are missing together."""
    return statistics.ordinary().keeps_patterns and statistics.covariance_type != "diag"


def _patterns_document(statistics: Statistics) -> dict[str, Any]:
    if not _has_patterns(statistics):
        return {}
    table = statistics.patterns()
    rows = zip(table.observed, table.counts, strict=True)
    return {"patterns": [{"observed": list(seen), "counts": list(counts)} for seen, counts in rows]}


def _patterns_text(statistics: Statistics) -> list[str]:
    if not _has_patterns(statistics):
        return []
    frame = statistics.patterns().to_pandas()
    more = len(frame) - _MOST_PATTERNS
    shown: str = frame.head(_MOST_PATTERNS).to_string(index=False)
    rest = [f"... and {counted(more, 'more pattern')}"] if more > 0 else []
    return ["", "missing features:", shown, *rest]


def _parameters(saved: Saved) -> dict[str, Any]:
    return saved.get_params() if is_model(saved) else {}


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
    return shown + (f"\n... and {counted(more, 'more class')}" if more > 0 else "")


# ---------------------------------------------------------------------- whether it can predict


def faults_of(saved: Saved) -> dict[str, str | None]:
    """Why a model cannot predict, or why each kind of model cannot be made of statistics; None if it can."""
    import streamgda
    from streamgda.scoring.inference import check_model

    if is_model(saved):
        return {type(saved).__name__: _fault(check_model, saved)}
    return {name: _fault(getattr(streamgda, name).from_statistics, saved) for name in MODELS.values()}


def _fault(make: Callable[[Any], object], saved: Saved) -> str | None:
    try:
        make(saved)
    except ValueError as error:
        return describe(error)
    return None


def fault_of(model: Saved) -> str | None:
    """Why a model cannot predict; None if it can, and for statistics."""
    return next(iter(faults_of(model).values())) if is_model(model) else None


def warn_of_fault(model: Saved) -> None:
    """Warn that a model which was saved cannot predict yet."""
    fault = fault_of(model)
    if fault is not None:
        warn(f"it cannot predict yet: {fault}")
