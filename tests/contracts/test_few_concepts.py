"""Who reads one method opens few files: functions of the package that calls enter, and base classes."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from threadpoolctl import threadpool_limits

import streamgda
from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    accumulate,
    predict_dataset,
    scan_parquet,
)

PACKAGE = Path(streamgda.__file__).parent
ESTIMATORS = [
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
]


def entered(call):
    """The functions of the package that a call enters, by file and name; comprehensions are no functions."""
    found = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and PACKAGE in Path(code.co_filename).parents and code.co_name[0] != "<":
            found.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.fixture(autouse=True)
def one_blas_thread():
    """To set their number enters functions besides."""
    with threadpool_limits(1):
        yield


def n_files(functions):
    return len({file for file, _ in functions})


def own_bases(kind):
    return [base for base in kind.__mro__[1:] if base.__module__.startswith("streamgda")]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_has_at_most_four_base_classes_of_its_own(estimator):
    assert len(own_bases(estimator)) <= 4


@pytest.mark.parametrize("statistics", [ClassStatistics, ExactClassStatistics, IncompleteStatistics])
def test_statistics_have_at_most_three_base_classes_of_their_own(statistics):
    assert len(own_bases(statistics)) <= 3


@pytest.mark.parametrize(
    ("estimator", "most_to_learn", "most_to_predict"),
    [(GaussianNB, 40, 54), (QuadraticDiscriminantAnalysis, 46, 67), (LinearDiscriminantAnalysis, 46, 71)],
)
def test_a_batch_and_the_prediction_after_it_enter_few_functions(estimator, most_to_learn, most_to_predict):
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=2000)
    X = rng.normal(size=(2000, 50)) + y[:, None]
    model = estimator().fit(X, y)
    model.predict_proba(X[:1])
    learning = entered(lambda: model.partial_fit(X[:1000], y[:1000]))
    predicting = entered(lambda: model.predict_proba(X[:1]))
    assert len(learning) <= most_to_learn
    assert n_files(learning) <= 14  # the limit of BLAS among them
    assert len(predicting) <= most_to_predict
    assert n_files(predicting) <= 17


def test_a_pass_over_files_and_their_prediction_enter_no_more_functions_than_they_did(tmp_path):
    """A reader of these begins at the plan of a pass; the bounds are what was reached on several cores.

    A prediction copies the model first, so that all its rows are scored by what had been learnt at the call.
    """
    rng = np.random.default_rng(0)
    (tmp_path / "rows").mkdir()
    for part in range(2):
        table = pa.table({"a": rng.normal(size=30), "b": rng.normal(size=30), "y": np.arange(30) % 3})
        pq.write_table(table, tmp_path / "rows" / f"{part}.parquet")
    source = scan_parquet(tmp_path / "rows", "y")
    model = LinearDiscriminantAnalysis().fit(source)
    predict_dataset(model, source, tmp_path / "once", scheduler="synchronous")
    reading = entered(lambda: accumulate(source, scheduler="synchronous"))
    predicting = entered(lambda: predict_dataset(model, source, tmp_path / "out", scheduler="synchronous"))
    assert len(reading) <= 186
    assert n_files(reading) <= 36
    assert len(predicting) <= 252
    assert n_files(predicting) <= 45
