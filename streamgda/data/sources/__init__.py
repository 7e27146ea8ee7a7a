"""Sources: rows with a target, described lazily and read in parts.

A source knows where rows are, and which columns are features, target and weight. It reads nothing but
metadata until a pass is made. Then it is cut into splits, and each split yields its rows in blocks. There are
sources of Parquet files (`scan_parquet`), of other files (`scan`), Arrow data (`scan_arrow`), Zarr groups
(`scan_zarr`) and Dask collections (`scan_dask`).

- `base`: what every source is, and `splits` what every part of one is. `conversion`: a source from a path or
  collection. `running`: what a user says of a read: its scheduler, and who is told how far it is.
- `files`: folders of Parquet, CSV, JSON lines, Feather and ORC.
- `arrow`: tables, datasets and streams of Arrow data. `frames`: those of rows in memory.
- `zarr`: Zarr groups, in batches of rows. `stores`: whether what a store holds changes in a pass.
- `dask`: Dask collections.
- `columns`: which columns are features, target and weight, and how others than numbers become features.
- `tabular`: the base class of sources of columns. `computed`: features that are computed of others.
  `batches`: batches of Arrow and frames in memory as blocks.
- `maps`: features that go through a transformer or a function.

How to write another one
------------------------
A source is one file with two classes. `accumulate`, `evaluate` and the estimators' `fit` take any `Source`,
so it may be a file outside of the package. Within it, a line of ``streamgda/__init__.pyi`` makes the
function public that scans it.

- A `Split` tells how many rows it has, and yields them in blocks. `array_blocks` makes blocks of arrays. A
  `BatchSplit` makes them of Arrow record batches, which `rebatched` cuts to the length of blocks. Both check
  the values, and name a bad row by its `origin`. The folds of rows depend on the name of the data and on the
  rows' numbers in it.
- A `Source` lists its splits: for the same data the same ones, in the same order, so that every scheduler
  gives the same bits. Splits are pickled. So they hold paths and ranges, and open nothing until they are
  read.

A source with other columns can read one beside the rows, to group them into folds: `Source.with_groups`. One
that can be split for training and testing has `Source.with_part`, and leaves out the rows of the other part,
as `array_blocks` does if it is given ``parts``. A source whose rows `predict_dataset` can score is a
`ScorableSource`. One of files that a `StatisticsLedger` can follow is a `FileSource`.
`streamgda.data.sources.base` and `splits` describe what each of these must have as well.

`SourceContract` in ``tests/data/sources/test_sources.py`` tests what every source must do. A subclass of it
that makes the new source from given rows runs all of these tests.

Examples
--------
A folder of NumPy archives, each with arrays X and y:

>>> from dataclasses import dataclass
>>> from pathlib import Path
>>> import numpy as np, tempfile
>>> from streamgda import accumulate
>>> from streamgda.data.blocks.arrays import array_blocks
>>> from streamgda.data.sources.base import Source
>>> from streamgda.data.sources.splits import Split
>>> @dataclass(frozen=True)
... class Archive(Split):
...     path: Path
...     n_rows = None  # unknown until it is read
...
...     def blocks(self, among=None):
...         with np.load(self.path) as arrays:
...             yield from array_blocks(arrays["X"], arrays["y"], origin=str(self.path), among=among)
>>> @dataclass(frozen=True)
... class ArchiveSource(Source):
...     folder: Path
...
...     def splits(self):
...         return [Archive(path) for path in sorted(self.folder.glob("*.npz"))]
>>> folder = Path(tempfile.mkdtemp())
>>> for i in range(2):
...     np.savez(folder / f"{i}.npz", X=np.arange(4.0).reshape(2, 2) + i, y=[0, 1])
>>> accumulate(ArchiveSource(folder), "diag").means
array([[0.5, 1.5],
       [2.5, 3.5]])
"""
