"""The recipe of `streamgda.models.estimators`: a new estimator takes one file and its entry."""

import multiprocessing
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamgda
from streamgda.models.estimators import ESTIMATORS, Entry

SPHERES = '''
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgda.models.estimators.generative import GenerativeClassifier
from streamgda.models.gaussians.densities import DiagonalGaussians


@dataclass(eq=False, repr=False, kw_only=True)
class Spheres(GenerativeClassifier):
    """Each class has one variance, for all of its features."""

    _covariance_type = "diag"
    _parameter_constraints = GenerativeClassifier._parameter_constraints

    priors: Any = None

    def _finalise(self, statistics):
        variances = statistics.covariance()
        return DiagonalGaussians(statistics.means, variances * 0 + variances.mean(axis=1, keepdims=True))
'''


@pytest.fixture
def spheres(tmp_path, monkeypatch):
    (tmp_path / "spheres.py").write_text(SPHERES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(ESTIMATORS, "Spheres", Entry("spheres", "spheres"))
    yield streamgda.Spheres
    vars(streamgda).pop("Spheres", None)


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 2)) * (1 + y[:, None]) + 4 * y[:, None]
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), tmp_path / "rows.parquet")
    return X, y


def test_it_predicts_by_its_own_densities(spheres, rows):
    X, y = rows
    model = spheres().fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    expected = np.column_stack(
        [
            np.log(np.mean(y == k))
            - 0.5 * ((X - X[y == k].mean(axis=0)) ** 2).sum(axis=1) / X[y == k].var(axis=0).mean()
            - np.log(X[y == k].var(axis=0).mean())
            for k in range(3)
        ]
    )
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))


def test_it_is_saved_and_works_on_datasets(spheres, rows, tmp_path):
    source = streamgda.scan_parquet(tmp_path / "rows.parquet", "y")
    model = spheres().fit(source)
    model.save(tmp_path / "model.parquet")
    loaded = streamgda.load(tmp_path / "model.parquet")
    assert type(loaded) is spheres
    assert loaded.statistics_ == model.statistics_
    assert streamgda.predict_dataset(loaded, source, tmp_path / "out").n_rows == 300
    assert streamgda.evaluate(loaded, source).n_rows == 300


def offer(folder, arguments):
    """Enter the estimator before the commands are imported, which look for estimators then."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    ESTIMATORS["Spheres"] = Entry("spheres", "spheres")
    from streamgda.cli.main import main

    main(arguments)


@pytest.mark.usefixtures("spheres", "rows")
def test_the_command_line_offers_it(tmp_path):
    arguments = ["fit", "rows.parquet", "--target", "y", "--model", "spheres", "--out", "model.parquet"]
    process = multiprocessing.get_context("forkserver").Process(target=offer, args=(tmp_path, arguments))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert type(streamgda.load(tmp_path / "model.parquet")).__name__ == "Spheres"
