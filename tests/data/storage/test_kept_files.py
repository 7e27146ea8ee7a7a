"""Files of each format load, and hold the numbers of the rows that they were made from.

``python -m tests.data.storage.test_kept_files`` wrote the files. It writes none that is there.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax
from scipy.stats import multivariate_normal, norm

from streamgda import (
    Evaluation,
    ExactClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    MixtureDiscriminantAnalysis,
    load,
)

DATA = Path(__file__).parents[2] / "files"
EXACT, EVALUATION = DATA / "format-1-exact.parquet", DATA / "format-1-evaluation.parquet"
X = np.array([[i * 7 % 11, i * 5 % 13, i * i % 17] for i in range(24)]) / 4
Y = np.array(["ant", "bee"] * 12)
TABLE = pd.DataFrame({"size": X[:, 0], "colour": ["red", "blue", None] * 8})
MODELS = {
    "nb-categories": (GaussianNB(), TABLE),
    "mda": (MixtureDiscriminantAnalysis(subclasses={"ant": X[:2], "bee": X[2:3]}, pooling=1.0), X),
    "edda": (GaussianDiscriminantAnalysis(covariance_model="VVI"), X),
}
GIVEN = np.tile([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]], (8, 1))


def write():
    if not EXACT.exists():
        state = ExactClassStatistics()
        state.update(X, Y)
        state.save(EXACT)
    if not EVALUATION.exists():
        Evaluation().update(Y, np.log(GIVEN), ["ant", "bee"]).save(EVALUATION)
    for name, (model, rows) in MODELS.items():
        if not (path := DATA / f"format-1-{name}.parquet").exists():
            model.fit(rows, Y).save(path)


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


@pytest.mark.parametrize("name", MODELS)
def test_models_predict_as_the_rows_say(name):
    model, rows = MODELS[name]
    loaded = load(DATA / f"format-1-{name}.parquet")
    assert type(loaded) is type(model)
    np.testing.assert_allclose(loaded.predict_proba(rows), proba_of(name), rtol=1e-9)


def proba_of(name):
    """Probabilities by NumPy and SciPy."""
    joint = np.zeros((24, 2))
    for k, label in enumerate(["ant", "bee"]):
        own = label == Y
        joint[:, k] = np.log(0.5)
        if name == "mda":
            centers = {"ant": X[:2], "bee": X[2:3]}
            nearest = {j: ((X[:, None] - c) ** 2).sum(axis=2).argmin(axis=1) for j, c in centers.items()}
            within = sum(
                np.cov(X[some].T, bias=True) * some.sum() / 24
                for j in centers
                for m in range(len(centers[j]))
                for some in [(j == Y) & (nearest[j] == m)]
            )
            parts = [own & (nearest[label] == m) for m in range(len(centers[label]))]
            shares = [some.sum() / own.sum() for some in parts]
            densities = [multivariate_normal(X[some].mean(axis=0), within).pdf(X) for some in parts]
            joint[:, k] += np.log(np.transpose(densities) @ shares)
            continue
        joint[:, k] += norm.logpdf(X, X[own].mean(axis=0), X[own].std(axis=0))[
            :, : 1 if "nb" in name else 3
        ].sum(axis=1)
        if "nb" in name:
            colours = TABLE["colour"].fillna("")
            counts = colours[own].value_counts().reindex(["red", "blue", ""], fill_value=0) + 1
            joint[:, k] += np.log(colours.map(counts / counts.sum()).to_numpy(float))
    return np.exp(log_softmax(joint, axis=1))


if __name__ == "__main__":
    write()
