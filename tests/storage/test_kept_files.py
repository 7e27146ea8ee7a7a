"""Exact sums and evaluations of format 1 load, and hold the numbers of the rows that they were made from.

``python -m tests.storage.test_kept_files`` wrote the files. It writes none that is there.
"""

from pathlib import Path

import numpy as np
import pytest

from streamgda import Evaluation, ExactClassStatistics, load

DATA = Path(__file__).parents[1] / "data"
EXACT, EVALUATION = DATA / "format-1-exact.parquet", DATA / "format-1-evaluation.parquet"
X = np.array([[i * 7 % 11, i * 5 % 13, i * i % 17] for i in range(24)]) / 4
Y = np.array(["ant", "bee"] * 12)
GIVEN = np.tile([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]], (8, 1))


def write():
    state = ExactClassStatistics()
    state.update(X, Y)
    state.save(EXACT)
    Evaluation().update(Y, np.log(GIVEN), ["ant", "bee"]).save(EVALUATION)


def test_exact_sums_hold_the_moments_of_their_rows():
    state = load(EXACT)
    assert type(state) is ExactClassStatistics
    assert list(state.classes) == ["ant", "bee"]
    for k, label in enumerate(state.classes):
        rows = X[label == Y]
        np.testing.assert_allclose(state.means[k], rows.mean(axis=0), rtol=1e-14)
        np.testing.assert_allclose(state.covariance(ddof=1)[k], np.cov(rows.T), rtol=1e-13)


def test_an_evaluation_holds_the_scores_of_its_rows():
    evaluation = Evaluation.load(EVALUATION)
    column = (Y == "bee").astype(int)
    assert evaluation.weight == 24
    expected = -np.log(GIVEN[np.arange(24), column]).mean()
    assert evaluation.log_loss == pytest.approx(expected, rel=1e-13)
    # Rows with 0.5 for both classes, 8 of 24, count for the first of them.
    right = (GIVEN.argmax(axis=1) == column).mean()
    assert evaluation.accuracy == pytest.approx(right, rel=1e-15)


if __name__ == "__main__":
    write()
