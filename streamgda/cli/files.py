"""Files that commands write, and what is told of them and of data."""

from __future__ import annotations

import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import click
import pandas as pd

from streamgda.cli.errors import attempt
from streamgda.cli.main import given
from streamgda.cli.running import report
from streamgda.data.sources.base import FileSource, Source
from streamgda.data.sources.files.formats import dataset_at
from streamgda.data.storage import tables
from streamgda.data.storage.documents import is_saved
from streamgda.data.storage.filesystems import resolve
from streamgda.data.storage.paths import shown
from streamgda.jobs.ledger.ledger import ENTRIES, LEDGER
from streamgda.jobs.scoring.inference import maps_and_model

TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")


def check_replaceable(path: str | None, source: Source | None = None) -> None:
    """Check before the work that a model or statistics can be saved at a path, and replace no other file."""
    if path is None:
        return
    if path == "-" or path.lower().endswith(TEXT_ENDINGS):
        raise click.UsageError(f"--out {path}: what is saved is a Parquet file, and no text.")
    tables.check_replaceable(path)
    if "://" not in path:
        folder = Path(path).expanduser().absolute().parent
        if not folder.is_dir():
            raise ValueError(f"--out {path}: there is no folder {folder}")
        tempfile.TemporaryFile(dir=folder).close()  # raises where the folder is not writable
    if isinstance(source, FileSource) and source.includes(*resolve(path)):
        raise ValueError(f"{path} lies in the folder of the data, where it would be read as data")


def save_and_report(saved: Any, out: str, **more: Any) -> None:
    """Save a model or statistics, and report the contents. Warn if it cannot predict yet."""
    saved.save(out)
    if fault := fault_of(saved):
        warnings.warn(f"it cannot predict yet: {fault}", stacklevel=2)
    report({**more, **document_of(saved), "out": shown(out)})


def write_page(report: Any, html: str | None) -> None:
    """Write a report as a page of HTML, if a file is named."""
    if html is not None:
        page = f'<!DOCTYPE html>\n<meta charset="utf-8">\n<title>streamgda</title>\n{report._repr_html_()}\n'
        Path(html).expanduser().write_text(page, encoding="utf-8")


def fault_of(saved: Any) -> str | None:
    """Why a model cannot predict; None if it can, or if these are statistics."""
    return attempt(getattr(maps_and_model(saved)[1], "snapshot", bool))[1]


def document_of(saved: Any) -> dict[str, Any]:
    """Describe a model or statistics."""
    statistics, model = getattr(saved, "statistics_", saved), maps_and_model(saved)[1]
    sums = {"count": statistics.counts, "weight": statistics.weights}
    numbers = ("n_rows", "n_dropped", "n_features", "feature_names")
    return {
        "kind": type(model).__name__,
        "parameters": {} if statistics is saved else model.get_params(deep=False),
        **statistics.required.keywords(),
        **{name: getattr(statistics, name) for name in numbers},
        **statistics.schema.to_metadata(),
        "classes": pd.DataFrame({"label": statistics.classes.tolist(), **sums}),
    }


def data_at(path: str) -> dict[str, Any] | None:
    """Describe files of data; None for what is no data, or was saved by this library."""
    kind = given("scan").get("format")
    found, fault = attempt(partial(dataset_at, path, kind=kind))
    if fault and (kind or path.endswith((*TEXT_ENDINGS, ".zarr")) or _is_folder_of_others(path)):
        raise ValueError(fault)
    if found is None or is_saved(found.stored):
        return None
    columns = pd.DataFrame({"column": found.schema.names, "type": map(str, found.schema.types)})
    sizes = {"files": len(found.listing.files), "rows": found.count_rows()}
    return {"path": shown(path), "format": found.written_as, **sizes, "columns": columns}


def _is_folder_of_others(path: str) -> bool:
    """Whether it is a folder that holds something, and no ledger."""
    storage, name = resolve(path)
    if storage.filesystem.get_file_info(name).type.name != "Directory":
        return False
    inside = storage.children(name)
    return bool(inside) and {LEDGER, ENTRIES}.isdisjoint(inside)
