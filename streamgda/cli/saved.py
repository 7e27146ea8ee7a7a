"""Saved models, statistics and ledgers: where they are saved, how they are loaded, and what they hold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import click

from streamgda.blocks.wording import counted
from streamgda.cli.data import Data
from streamgda.cli.errors import describe, warn
from streamgda.cli.models import MODELS
from streamgda.cli.running import Option, Reporting

if TYPE_CHECKING:
    from streamgda.estimators.classifier import GaussianClassifier
    from streamgda.sources.base import Source
    from streamgda.statistics.base import Statistics
    from streamgda.statistics.incomplete.state import IncompleteStatistics


def out_option(text: str, *, required: bool = False) -> Option:
    """The option ``--out`` for the file of a model or statistics."""
    return click.option("--out", required=required, metavar="FILE", help=text)


def check_folder_of(path: str) -> None:
    """Raise OSError unless a file can be created at `path`; URLs are checked when they are written."""
    if "://" in path:
        return
    place = Path(path).expanduser().absolute()
    if path.endswith("/") or (place.exists() and not place.is_file()):
        raise OSError(f"{path} cannot be written: it is a folder or no regular file")
    folder = place.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}") from None
    except OSError as error:
        raise OSError(f"{path} cannot be written: {folder}: {error.strerror}") from error


def check_replaceable(path: str, source: Source | None = None) -> None:
    """Check that a model or statistics can be saved at `path`, and that it replaces no other file.

    Raises
    ------
    OSError
        If a file cannot be created there.
    ValueError
        If the file there is neither a model nor statistics; it may be data. If it would be read as data of
        the source.
    """
    from streamgda.storage import tables

    check_folder_of(path)
    tables.check_replaceable(path)
    if source is not None:
        check_apart(path, source)


def check_apart(path: str, source: Source) -> None:
    """Raise ValueError if a file written to `path` would be read as data of the source from then on."""
    from streamgda.sources.base import FileSource
    from streamgda.storage.filesystems import resolve

    if isinstance(source, FileSource) and source.includes(*resolve(path)):
        raise ValueError(
            f"{path} lies in the folder of the data, where it would be read as data; choose another"
        )


Saved: TypeAlias = "GaussianClassifier[Any] | Statistics"


def load_model(path: str, data: Data) -> Any:
    """Load a model, and set how it treats missing values from ``--missing``.

    A file of joblib holds a pipeline that ends in a model.

    Raises
    ------
    ValueError
        If the file holds statistics and no model.
    """
    import joblib

    from streamgda import load
    from streamgda.scoring.inference import apart

    predictor = joblib.load(path) if path.endswith(".joblib") else load(path)
    _, model = apart(predictor)
    if not is_model(model):
        raise ValueError(
            f"{path} holds statistics and no model; make one of them: "
            f"streamgda merge {path} --model qda --out FILE"
        )
    if data.missing is not None:
        model.set_params(missing="marginal" if data.missing == "marginal" else "raise")
    return predictor


def is_model(saved: Saved) -> TypeGuard[GaussianClassifier[Any]]:
    """Whether this is a model, and not statistics."""
    return hasattr(saved, "statistics_")


def statistics_of(saved: Saved) -> Statistics:
    """The statistics of a model. Statistics are returned as they are."""
    statistics: Statistics = getattr(saved, "statistics_", saved)
    return statistics


def options_held(path: str) -> dict[str, Any]:
    """The options with which a ledger was made; empty if the ledger is new or damaged."""
    from streamgda import StatisticsLedger
    from streamgda.ledger.manifest import options_of

    try:
        return options_of(StatisticsLedger(path).read_options)
    except ValueError:  # the refresh that follows reports the damage
        return {}


# ---------------------------------------------------------------------- what it holds


def document_of(saved: Saved) -> dict[str, Any]:
    """Describe a model or statistics in plain values, for JSON."""
    statistics = statistics_of(saved)
    sums = zip(statistics.classes.tolist(), statistics.counts, statistics.weights, strict=True)
    patterns: dict[str, Any] = {}
    if has_patterns(statistics):
        table = statistics.patterns()
        rows = zip(table.observed, table.counts, strict=True)
        patterns["patterns"] = [{"observed": list(seen), "counts": list(counts)} for seen, counts in rows]
    return {
        "kind": type(saved).__name__,
        "parameters": saved.get_params() if is_model(saved) else {},
        "covariance_type": statistics.covariance_type,
        "fourth_moments": statistics.has_fourth_moments,
        "exact": statistics.exact,
        "n_rows": statistics.n_rows,
        "n_dropped": statistics.n_dropped,
        "n_features": statistics.n_features,
        "feature_names": statistics.feature_names,
        **({} if statistics.categories is None else {"categories": statistics.categories.described()}),
        **patterns,
        "classes": [{"label": label, "count": n, "weight": weight} for label, n, weight in sums],
    }


def summary_of(saved: Saved) -> str:
    """Describe a model or statistics in one line."""
    statistics = statistics_of(saved)
    dropped = f" ({statistics.n_dropped:,} dropped)" if statistics.n_dropped else ""
    labels = statistics.classes
    classes = counted(len(statistics.class_labels), "class")
    classes += f" in {counted(len(labels), 'subclass')}" if labels.dtype.names else ""
    return (
        f"{type(saved).__name__}: {counted(statistics.n_rows, 'row')}{dropped}, "
        f"{classes}, {counted(statistics.n_features, 'feature')}"
    )


def has_patterns(statistics: Statistics) -> TypeGuard[IncompleteStatistics]:
    """Whether the statistics record which features are missing together."""
    return statistics.ordinary().keeps_patterns and statistics.covariance_type != "diag"


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
    """Why a model cannot predict. None if the model can predict, or if `model` holds statistics."""
    return next(iter(faults_of(model).values())) if is_model(model) else None


def save_if_named(model: Any, out: str | None, run: Reporting, found: dict[str, Any], text: str) -> None:
    """Write what was found. If a file is named, save the model there, and the text is a report."""
    document = {**found, "out": out}
    if out is None:
        run.output(document, text)
    else:
        model.save(out)
        run.report(document, f"{text}\nsaved in {out}")


def save(saved: Saved, out: str, run: Reporting, said: str = "", **more: Any) -> None:
    """Save a model or statistics, and report the contents and `more`.

    Warn if it cannot predict yet.
    """
    saved.save(out)
    fault = fault_of(saved)
    if fault is not None:
        warn(f"it cannot predict yet: {fault}")
    lines = [said, summary_of(saved), f"saved in {out}"]
    run.report({**document_of(saved), **more, "out": out}, "\n".join(filter(None, lines)))
