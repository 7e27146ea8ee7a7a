"""Saved models, statistics and ledgers: where and how they are saved and loaded, and what they hold."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import click

from streamgda.blocks.wording import abridged, counted
from streamgda.cli.data import MODELS, Data
from streamgda.cli.errors import describe, warn
from streamgda.cli.running import Option, Reporting, reporting_options
from streamgda.estimators import estimator_named
from streamgda.storage.paths import shown

if TYPE_CHECKING:
    from streamgda.diagnostics.base import Table
    from streamgda.estimators.classifier import GaussianClassifier
    from streamgda.sources.base import Source
    from streamgda.statistics.base import Statistics
    from streamgda.storage.filesystems import Storage


Saved: TypeAlias = "GaussianClassifier[Any] | Statistics"

_TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")

_MOST_ROWS = 20  # the most rows of a table that the text shows

_MOST_FEATURES = 10


def out_option(text: str, *, required: bool = False, metavar: str = "FILE") -> Option:
    """The option ``--out`` for the file of a model or statistics, or the place of predictions."""
    return click.option("--out", required=required, callback=_no_text, metavar=metavar, help=text)


def _no_text(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    if path is not None and (path == "-" or path.lower().endswith(_TEXT_ENDINGS)):
        raise click.BadParameter(f"{path!r}: the output is Parquet, or Zarr for predictions; it is no text.")
    return path


def check_folder_of(path: str) -> None:
    """Raise OSError unless a file can be created at `path`; URLs are checked when they are written."""
    if "://" in path:
        return
    place = Path(path).expanduser().absolute()
    if path.endswith("/") or (place.exists() and not place.is_file()):
        raise OSError(f"{path} cannot be written: it is a folder or no regular file")
    with tempfile.TemporaryFile(dir=place.parent):
        pass


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
        model.set_params(missing=data.of_models)
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
    from streamgda.estimators.options import to_plain

    statistics: Any = statistics_of(saved)
    sums = zip(statistics.classes.tolist(), statistics.counts, statistics.weights, strict=True)
    patterns: dict[str, Any] = {}
    if _has_patterns(statistics):
        table = statistics.patterns()
        rows = zip(table.observed, table.counts, strict=True)
        patterns["patterns"] = [{"observed": list(seen), "counts": list(counts)} for seen, counts in rows]
    return {
        "kind": type(saved).__name__,
        "parameters": to_plain(saved.get_params(deep=False)) if is_model(saved) else {},
        **statistics.required.keywords(),
        "n_rows": statistics.n_rows,
        "n_dropped": statistics.n_dropped,
        "n_features": statistics.n_features,
        "feature_names": statistics.feature_names,
        **{name: value for name, value in statistics.schema.to_metadata().items() if name != "feature_names"},
        **patterns,
        "classes": [{"label": label, "count": n, "weight": weight} for label, n, weight in sums],
    }


def summary_of(saved: Saved) -> str:
    """Describe a model or statistics in one line."""
    statistics = statistics_of(saved)
    dropped = f" ({statistics.n_dropped:,} dropped)" if statistics.n_dropped else ""
    labels = statistics.classes
    classes = counted(len(statistics.by_label().classes), "class")
    classes += f" in {counted(len(labels), 'subclass')}" if labels.dtype.names else ""
    return (
        f"{type(saved).__name__}: {counted(statistics.n_rows, 'row')}{dropped}, "
        f"{classes}, {counted(statistics.n_features, 'feature')}"
    )


def _has_patterns(statistics: Any) -> bool:
    """Whether the statistics record which features are missing together."""
    return bool(statistics.simplest().missing != "raise" and statistics.covariance_type != "diag")


# ---------------------------------------------------------------------- whether it can predict


def fault_of(saved: Saved) -> str | None:
    """Why a model cannot predict. None if it can predict, or if these are statistics."""
    from streamgda.scoring.inference import snapshot

    return _fault(snapshot, saved) if is_model(saved) else None


def _faults_of(saved: Saved) -> dict[str, str | None]:
    """Why a model cannot predict, or why each kind of model cannot be made of statistics; None if it can."""
    if is_model(saved):
        return {type(saved).__name__: fault_of(saved)}
    return {name: _fault(estimator_named(name).from_statistics, saved) for name in MODELS.values()}


def _fault(make: Callable[[Any], object], saved: Saved) -> str | None:
    try:
        make(saved)
    except ValueError as error:
        return describe(error)
    return None


def save_if_named(model: Any, out: str | None, run: Reporting, found: dict[str, Any], text: str) -> None:
    """Write what was found. If a file is named, save the model there, and the text is a report."""
    document = {**found, "out": out and shown(out)}
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
    run.report({**document_of(saved), **more, "out": shown(out)}, "\n".join(filter(None, lines)))


# ---------------------------------------------------------------------- ``streamgda inspect``


@click.command()
@click.argument("path", metavar="PATH")
@click.option(
    "--tests",
    is_flag=True,
    help="Also test whether means and covariances of the classes differ, and rank the features.",
)
@reporting_options
def inspect(path: str, tests: bool, run: Reporting) -> None:
    """Describe saved models, statistics and ledgers.

    This prints the kind and parameters, rows, features, classes and bytes, whether a model can predict, and
    which models can be made of statistics, or why not; which features are missing together, if some are; for
    a ledger also the number of files and the options that they are read with.

    \b
    Examples:
      streamgda inspect model.parquet
      streamgda inspect ledger --json
    """
    from streamgda.storage.filesystems import resolve

    storage, name = resolve(path)
    is_folder = storage.filesystem.get_file_info(name).type.name == "Directory"
    saved, facts = _ledger(path, storage, name) if is_folder else _file(path, storage, name)
    lines, verdicts = [*_text(saved), "", *_facts(facts)], []
    for model, fault in _faults_of(saved).items():
        verdicts.append({"model": model, "can_predict": fault is None, "reason": fault})
        lines.append(f"{model} can predict" if fault is None else f"{model} cannot predict: {fault}")
    document = {"path": shown(path), **facts, **document_of(saved), "verdicts": verdicts}
    if tests:
        found = _tests(statistics_of(saved))
        document["tests"] = {name: _records(table) for name, table in found.items()}
        lines += [line for table in found.values() for line in ("", str(table))]
    run.output(document, "\n".join(lines))


def _text(saved: Saved) -> list[str]:
    """Describe a model or statistics in several lines."""
    import pandas as pd

    statistics: Any = statistics_of(saved)
    names = statistics.feature_names
    lines = [summary_of(saved)]
    if is_model(saved):
        params = (f"{name}={value}" for name, value in saved.get_params(deep=False).items())
        lines.append(f"parameters: {', '.join(params)}")
    lines.append(", ".join(statistics.required.in_words()))
    features = (
        f"{statistics.n_features:,} without names" if names is None else abridged(names, _MOST_FEATURES)
    )
    columns = {"class": statistics.classes.tolist(), "rows": statistics.counts, "weight": statistics.weights}
    classes = pd.DataFrame(columns).set_index("class")
    lines += [
        f"features: {features}",
        "",
        classes.to_string(max_rows=_MOST_ROWS, float_format="{:.10g}".format),
    ]
    if (values := statistics.schema.values_of_columns()) is not None:
        table = pd.DataFrame(values)
        table["values"] = [abridged(values, 8) for values in table["values"]]
        lines += ["", table.to_string(max_rows=_MOST_ROWS, index=False)]
    if _has_patterns(statistics):
        patterns = statistics.patterns().to_pandas()
        lines += ["", "missing features:", patterns.to_string(max_rows=_MOST_ROWS, index=False)]
    return lines


def _tests(statistics: Statistics) -> dict[str, Table | str]:
    """The table of each diagnostic, or why there is none."""
    from streamgda.diagnostics import box_m, manova, select_features

    found: dict[str, Table | str] = {}
    for test in (manova, box_m, select_features):
        try:
            found[test.__name__] = test(statistics)
        except ValueError as error:
            found[test.__name__] = f"{test.__name__}: {describe(error)}"
    return found


def _records(table: Table | str) -> Any:
    return table if isinstance(table, str) else table.to_pandas().reset_index().to_dict("records")


def _file(path: str, storage: Storage, name: str) -> tuple[Saved, dict[str, Any]]:
    from streamgda import load, load_metadata

    return load(path), {"bytes": storage.version(name).size, **load_metadata(path)}


def _ledger(path: str, storage: Storage, name: str) -> tuple[Saved, dict[str, Any]]:
    from streamgda import StatisticsLedger

    files = storage.listing(name)
    if not any(file.endswith("/manifest.parquet") for file in files):
        raise ValueError(f"{path} is a folder, but no ledger; of models and statistics name the file")
    ledger = StatisticsLedger(path, **options_held(path))
    facts = {
        "bytes": sum(version.size or 0 for version in files.values()),
        "files": ledger.files.num_rows,
        "quarantined": ledger.quarantined,
        "rejected": ledger.rejected,
        "reads": ledger.read_options,
    }
    return ledger.statistics(), facts


def _facts(facts: dict[str, Any]) -> list[str]:
    lines = [counted(facts["bytes"], "byte")]
    if facts.get("library"):
        lines[0] += f", saved by {facts['library']} at {facts['time']}"
        lines.append(f"fingerprint {facts['fingerprint'][:16]}")
    if facts.get("metadata"):
        lines.append(f"metadata: {json.dumps(facts['metadata'])}")
    if "files" in facts:
        lines[0] += f", {counted(facts['files'], 'file')}"
        options = [
            f"{name}={value!r}" for name, value in facts["reads"].items() if value and name != "features"
        ]
        lines.append(f"reads {', '.join(options)}")
        lines += [f"quarantined {path}: {alarm}" for path, alarm in facts["quarantined"].items()]
        lines += [f"rejected {path}" for path in facts["rejected"]]
    return lines
