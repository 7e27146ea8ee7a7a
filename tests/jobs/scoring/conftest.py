"""Files to predict, a model of them, and predictions in files or a Zarr group as one frame."""

import numpy as np
import pandas as pd
import pytest
import zarr

from streamgda import QuadraticDiscriminantAnalysis, scan_parquet

NAMES = ["u", "v", "w"]
ALL = ("label", "probabilities", "log_density", "distance")
KINDS = np.array(["ant", "bee", "coûteux"])


def frame_of(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 3)) + kind[:, None], columns=NAMES)
    return frame.assign(kind=KINDS[kind], row=np.arange(n_rows) + 1000 * seed)


@pytest.fixture
def folder(tmp_path):
    """Five files of unequal length, one of them empty, in row groups of 100."""
    path = tmp_path / "in"
    path.mkdir()
    for seed, n_rows in enumerate((250, 3, 0, 400, 120)):
        frame_of(n_rows, seed).to_parquet(path / f"{seed}.parquet", index=False, row_group_size=100)
    return path


@pytest.fixture
def source(folder):
    return scan_parquet(folder, "kind", features=NAMES)


@pytest.fixture
def model(source):
    return QuadraticDiscriminantAnalysis().fit(source)


@pytest.fixture
def whole(folder):
    return pd.read_parquet(folder)


def read(out):
    """Predictions as a frame, wherever they were written."""
    if not str(out).endswith(".zarr"):
        return pd.read_parquet(out)
    columns = {}
    for name, array in sorted(zarr.open_group(out, mode="r").arrays()):
        if name == "probabilities":
            columns |= {f"probability_{label}": array[:, k] for k, label in enumerate(array.attrs["classes"])}
        else:
            columns[name] = array[:]
    return pd.DataFrame(columns)


def check(scored, model, X, columns=("label", "probabilities")):
    """Whether predictions are those of the model in memory."""
    if "label" in columns:
        assert (scored["predicted_label"].to_numpy() == model.predict(X)).all()
    if "probabilities" in columns:
        names = [f"probability_{label}" for label in model.classes_]
        np.testing.assert_allclose(scored[names], model.predict_proba(X), rtol=1e-12, atol=1e-300)
    if "log_density" in columns:
        np.testing.assert_allclose(scored["log_density"], model.score_samples(X), rtol=1e-12)
    if "distance" in columns:
        nearest = model.mahalanobis(X)[np.arange(len(X)), model.predict_proba(X).argmax(axis=1)]
        np.testing.assert_allclose(scored["distance"], nearest, rtol=1e-9)


def stamps(folder):
    """What would change if a file in a folder were written again."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files
    }
