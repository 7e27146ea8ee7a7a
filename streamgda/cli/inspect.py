"""``streamgda inspect``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from streamgda.blocks.wording import abridged, counted
from streamgda.cli.errors import describe
from streamgda.cli.running import Reporting, reporting_options
from streamgda.cli.saved import (
    document_of,
    faults_of,
    has_patterns,
    is_model,
    options_held,
    statistics_of,
    summary_of,
)

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from streamgda.cli.saved import Saved
    from streamgda.diagnostics.base import Table
    from streamgda.statistics.base import Statistics


_MOST_ROWS = 20  # the most rows of a table that the text shows

_MOST_FEATURES = 10


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

    filesystem, name = resolve(path)
    is_folder = filesystem.get_file_info(name).type.name == "Directory"
    saved, facts = _ledger(path, filesystem, name) if is_folder else _file(path, filesystem, name)
    lines, verdicts = [*_text(saved), "", *_facts(facts)], []
    for model, fault in faults_of(saved).items():
        verdicts.append({"model": model, "can_predict": fault is None, "reason": fault})
        lines.append(f"{model} can predict" if fault is None else f"{model} cannot predict: {fault}")
    document = {"path": path, **facts, **document_of(saved), "verdicts": verdicts}
    if tests:
        found = _tests(statistics_of(saved))
        document["tests"] = {name: _records(table) for name, table in found.items()}
        lines += [line for table in found.values() for line in ("", str(table))]
    run.output(document, "\n".join(lines))


def _text(saved: Saved) -> list[str]:
    """Describe a model or statistics in several lines."""
    import pandas as pd

    statistics = statistics_of(saved)
    names = statistics.feature_names
    held = [f"{statistics.covariance_type} covariance"]
    held += ["fourth moments"] if statistics.has_fourth_moments else []
    held += ["exact sums"] if statistics.exact else []
    lines = [summary_of(saved)]
    if is_model(saved):
        lines.append(
            f"parameters: {', '.join(f'{name}={value}' for name, value in saved.get_params().items())}"
        )
    lines.append(", ".join(held))
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
    if (categories := statistics.categories) is not None:
        table = pd.DataFrame({"column": categories.columns, "categories": list(map(len, categories.values))})
        table["values"] = [
            abridged(["" if v is None else v for v in values], 8) for values in categories.values
        ]
        lines += ["", table.to_string(max_rows=_MOST_ROWS, index=False)]
    if has_patterns(statistics):
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


def _file(path: str, filesystem: FileSystem, name: str) -> tuple[Saved, dict[str, Any]]:
    from streamgda import load, load_metadata
    from streamgda.storage.filesystems import current_version

    return load(path), {"bytes": current_version(filesystem, name).size, **load_metadata(path)}


def _ledger(path: str, filesystem: FileSystem, name: str) -> tuple[Saved, dict[str, Any]]:
    from streamgda import StatisticsLedger
    from streamgda.storage.filesystems import listing

    files = listing(filesystem, name)
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
