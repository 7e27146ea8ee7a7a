"""What is in statistics or a model, as a document and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgda.protocol import Statistics

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
