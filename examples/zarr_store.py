"""Zarr, out of core: a million rows are drawn from a model, and a second model is fitted to them.

QDA of Iris draws flowers chunk by chunk into a Zarr group, which is never in memory as a whole. One pass over
the group, a chunk at a time, gives a model with almost the same parameters.

Run as ``python zarr_store.py [folder]``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import zarr
from sklearn.datasets import load_iris

from streamgda import QuadraticDiscriminantAnalysis, accumulate, scan_zarr

ROWS, CHUNK = 1_000_000, 50_000


def write_flowers(model: QuadraticDiscriminantAnalysis, store: Path) -> None:
    """Draw rows into a matrix X and labels y of a group, chunk by chunk."""
    group = zarr.create_group(store)
    X = group.create_array(
        "X", shape=(ROWS, model.n_features_in_), chunks=(CHUNK, model.n_features_in_), dtype="f4"
    )
    y = group.create_array("y", shape=(ROWS,), chunks=(CHUNK,), dtype="i1")
    for seed, start in enumerate(range(0, ROWS, CHUNK)):
        rows = slice(start, start + CHUNK)
        X[rows], y[rows] = model.sample(CHUNK, random_state=seed)


def main(folder: Path) -> None:
    """Draw the rows, read them once, compare the parameters."""
    store = folder / "flowers.zarr"
    truth = QuadraticDiscriminantAnalysis(store_covariance=True).fit(*load_iris(return_X_y=True))
    write_flowers(truth, store)
    statistics = accumulate(scan_zarr(store), progress=True)
    print(statistics)
    found = QuadraticDiscriminantAnalysis.from_statistics(statistics, store_covariance=True)
    for kind, true, mean in zip(found.classes_, truth.means_, found.means_, strict=True):
        print(f"class {kind}: mean {mean.round(3)}, drawn with {true.round(3)}")
    error = np.abs(np.array(found.covariance_) - np.array(truth.covariance_)).max()
    print(f"covariances differ by at most {error:.4f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
