"""Score a dataset of any size, and write what comes of it part by part."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from streamgda.blas import single_blas_thread
from streamgda.blocks import Block
from streamgda.labels import code_dtype
from streamgda.parts import PartFolder
from streamgda.passes import add_up, compute_plan, plan_fold
from streamgda.schedulers import scheduler_for
from streamgda.scoring import Model, check_features, check_model, judged_pieces
from streamgda.source import Source, SourceToScore, Split, SplitToScore
from streamgda.sources.parquet import scan_parquet

Column = Literal["label", "probabilities", "log_density", "distance"]

_FORMAT = 1


@dataclass(frozen=True)
class Written:
    """What `predict_dataset` did.

    Attributes
    ----------
    n_rows : int
        Rows of the predictions.
    n_parts : int
        Files that they are in.
    n_found : int
        How many of these files were there already, from a run that did not end.
    n_dropped : int
        Rows that the source left out because something was missing.
    """

    n_rows: int = 0
    n_parts: int = 0
    n_found: int = 0
    n_dropped: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(
            self.n_rows + other.n_rows,
            self.n_parts + other.n_parts,
            self.n_found + other.n_found,
            self.n_dropped + other.n_dropped,
        )


def predict_dataset(
    model: Model,
    source: Source | str | PathLike[str] | Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    *,
    columns: Sequence[Column] = ("label", "probabilities"),
    keep: Sequence[str] = (),
    filesystem: Any = None,
    scheduler: Any = None,
    progress: bool = False,
) -> Written:
    """Score a Parquet or Zarr dataset, and write the predictions as a folder of Parquet files.

    The rows, and their order when the files are read in the order of their names, are those of the input.
    Each task writes a file, under another name until it is whole. Started again after it was stopped, it
    leaves the files that are there as they are, if they come from the same model and the same input.

    Parameters
    ----------
    model : estimator
        Fitted.
    source : source, path, URL, glob or list of them
        Made by `scan_parquet` or `scan_zarr`, with or without a target. Of a path, the columns that are the
        features of the model are read; of one that ends in ".zarr", the array "X".
    out : path or URL
        A folder for the predictions alone; made, if there is none.
    columns : sequence of str, default=("label", "probabilities")
        What to write:

        - "label": the class predicted, as `predicted_label`;
        - "probabilities": p(k | x) of each class k, as `probability_k`;
        - "log_density": ln p(x) under the mixture of the classes, as `log_density`;
        - "distance": the Mahalanobis distance from the mean of the class predicted, as `distance`.
    keep : sequence of str, optional
        Columns of the input, keys of its partitions, or Zarr arrays of one dimension, to write beside these.
    filesystem : pyarrow or fsspec filesystem, optional
        Where `out` is; found from `out` where not given.
    scheduler : optional
        What `dask.compute` takes, as in `accumulate`.
    progress : bool, default=False
        Show rows done, rows per second and the time left.

    Returns
    -------
    Written
        How many rows and files there are now.

    Raises
    ------
    ValueError
        If a feature or a column to keep is missing, a row cannot be scored, or `out` holds other files; the
        message says where. Files that are finished stay.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from streamgda import GaussianNB, predict_dataset, scan_parquet
    >>> folder = tempfile.mkdtemp()
    >>> table = pa.table({"id": [7, 8, 9, 10], "x": [1.0, 2.0, 6.0, 9.0], "kind": list("aabb")})
    >>> pq.write_table(table, f"{folder}/1.parquet")
    >>> model = GaussianNB().fit(scan_parquet(folder, "kind", features=["x"]))
    >>> predict_dataset(model, folder, f"{folder}/scored", columns=["label"], keep=["id"])
    Written(n_rows=4, n_parts=1, n_found=0, n_dropped=0)
    >>> pq.read_table(f"{folder}/scored").to_pydict()
    {'id': [7, 8, 9, 10], 'predicted_label': ['a', 'a', 'b', 'b']}
    """
    check_model(model)
    source = _as_source(model, source)
    check_features(model, source)
    scheduler = scheduler_for(source, scheduler)
    job = _Job(model, PartFolder.at(out, filesystem), _checked(columns), tuple(dict.fromkeys(keep)))
    _check_apart(job)
    parts = _parts(job, source)
    done = job.folder.prepare({part.name: part.fingerprint for part in parts})
    written = Written(sum(done.values()), len(done), len(done))
    groups = [[part] for part in parts if part.name not in done]
    if groups:
        plan = plan_fold(groups, write_parts, add_up, job)
        written += compute_plan(plan, scheduler, progress)
    return written


# ---------------------------------------------------------------------- what is to be done


@dataclass(frozen=True)
class _Job:
    """What all the tasks have in common."""

    model: Model
    folder: PartFolder
    columns: tuple[Column, ...]
    keep: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The columns to write, but for those kept."""
        named = {
            "label": ["predicted_label"],
            "probabilities": [f"probability_{label}" for label in self.model.classes_],
            "log_density": ["log_density"],
            "distance": ["distance"],
        }
        return [name for column in self.columns for name in named[column]]


@dataclass(frozen=True)
class _Part(Split):
    """A part of the input, and the file that becomes of it."""

    split: SplitToScore
    name: str
    fingerprint: str

    @property
    def n_rows(self) -> int | None:
        return self.split.n_rows

    def blocks(self) -> Iterator[Block]:
        return self.split.blocks()


def _as_source(model: Model, source: Any) -> SourceToScore:
    if isinstance(source, str | PathLike) and os.fspath(source).rstrip("/").endswith(".zarr"):
        from streamgda.sources.zarr import scan_zarr

        source = scan_zarr(os.fspath(source), None)
    elif not isinstance(source, Source):
        names = getattr(model, "feature_names_in_", None)
        source = scan_parquet(source, features=None if names is None else [str(name) for name in names])
    if not isinstance(source, SourceToScore):
        raise TypeError(
            f"{source!r} cannot be scored part by part; scan Parquet or Zarr. On Dask collections, the "
            "methods of the model are lazy"
        )
    return source


def _checked(columns: Sequence[Column]) -> tuple[Column, ...]:
    choices = get_args(Column)
    if isinstance(columns, str) or not columns or not set(columns) <= set(choices):
        raise ValueError(f"columns must be some of {', '.join(map(repr, choices))}; got {columns!r}")
    return tuple(dict.fromkeys(columns))


def _check_apart(job: _Job) -> None:
    for name in job.keep:
        if name in job.names:
            raise ValueError(f"column {name!r} cannot be kept: predictions are written under this name")


def _parts(job: _Job, source: SourceToScore) -> list[_Part]:
    splits = source.to_score(job.keep)
    if not splits:
        raise ValueError(f"there is nothing to predict: {source!r} has no rows")
    what = [_FORMAT, _digest(job.model), job.columns, job.keep]
    width = max(5, len(str(len(splits) - 1)))
    return [
        _Part(split, f"part-{i:0{width}}.parquet", _hashed([what, split.identity]))
        for i, split in enumerate(splits)
    ]


def _digest(model: Model) -> str:
    """What tells models apart: their parameters, and the sums that they were learnt from."""
    statistics, params = model.statistics_, model.get_params(deep=False)
    digest = hashlib.sha256(_hashed([type(model).__name__, params, statistics.classes]).encode())
    for sums in (statistics.weights, statistics.counts, statistics.means, statistics.scatter):
        digest.update(np.ascontiguousarray(sums).tobytes())
    return digest.hexdigest()


def _hashed(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


# ---------------------------------------------------------------------- tasks


def write_parts(parts: Sequence[_Part], job: _Job) -> Written:
    """One task: score parts of the input, and write a file for each."""
    with single_blas_thread:
        return add_up([_write(part, job) for part in parts])


def _write(part: _Part, job: _Job) -> Written:
    n_dropped = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal n_dropped
        for block, kept in part.split.unlabelled():
            n_dropped += block.n_dropped
            yield pa.table({**kept, **dict(zip(job.names, _predicted(job, block), strict=True))})

    n_rows = job.folder.write(part.name, part.fingerprint, tables())
    return Written(n_rows, 1, 0, n_dropped)


def _predicted(job: _Job, block: Block) -> list[pa.Array]:
    """The columns to write, in order, of the rows of a block."""
    n_rows, classes = len(block.codes), job.model.classes_
    codes = np.empty(n_rows, dtype=code_dtype(len(classes)))
    probabilities = np.empty((len(classes) if "probabilities" in job.columns else 0, n_rows))
    density, distance = np.empty((2, n_rows))
    wanted = {"log_density": "log_density" in job.columns, "distance": "distance" in job.columns}
    for piece, verdicts in judged_pieces(job.model, block, **wanted):
        codes[piece] = verdicts.codes
        if len(probabilities):
            probabilities[:, piece] = verdicts.probabilities.T
        if verdicts.log_density is not None:
            density[piece] = verdicts.log_density
        if verdicts.distance is not None:
            distance[piece] = verdicts.distance
    labels = pa.array(classes).take(pa.array(codes))
    made: dict[str, Any] = {
        "label": [labels],
        "probabilities": probabilities,
        "log_density": [density],
        "distance": [distance],
    }
    return [pa.array(values) for column in job.columns for values in made[column]]
