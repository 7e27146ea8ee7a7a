"""Models that predict each row before they learn it: one class, and too few rows for any density."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import load_iris

from streamgda import GaussianNB, evaluate, from_bytes, predict_dataset, scan_arrow
from streamgda.models.estimators import ESTIMATORS, estimator_named
from streamgda.models.estimators.generative import GenerativeClassifier

MODELS = [estimator_named(name) for name in ESTIMATORS]
GENERATIVE = [kind for kind in MODELS if issubclass(kind, GenerativeClassifier)]
X, Y = load_iris(return_X_y=True)


@pytest.mark.slow_cases("Random", "30-", "[2-")
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("n_rows", [1, 2, 30])
def test_the_only_class_is_predicted(kind, n_rows, tmp_path):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the covariance within the classes has rank")
        model = kind().partial_fit(X[:n_rows], ["a"] * n_rows)
        for one in (
            model,
            kind().merge(model),
            kind().merge(model.statistics_),
            from_bytes(model.to_bytes()),
        ):
            assert set(one.predict(X)) == {"a"}
            assert one.predict_proba(X).tolist() == [[1.0]] * len(X)
            assert one.predict_log_proba(X).tolist() == [[0.0]] * len(X)
            assert one.decision_function(X).shape == (len(X), 1)
        evaluation = evaluate(model, X, np.where(Y == 0, "a", "b"))
        assert evaluation.accuracy == pytest.approx(1 / 3)
        source = scan_arrow(pd.DataFrame(X, columns=list("abcd")))
        predict_dataset(model, source, tmp_path / "out")
        assert set(pd.read_parquet(tmp_path / "out")["predicted_label"]) == {"a"}
        if n_rows == 30 and issubclass(kind, GenerativeClassifier):
            assert np.isfinite(model.score_samples(X)).all()
            assert model.mahalanobis(X).shape == (len(X), 1)
        announced = kind().partial_fit(X[:n_rows], [5] * n_rows, classes=[4, 5])
        assert announced.predict_proba(X[:2]).tolist() == [[0.0, 1.0]] * 2
        assert announced.decision_function(X[:2]).tolist() == [np.inf] * 2


@pytest.mark.parametrize("kind", GENERATIVE)
def test_fit_still_needs_two_classes(kind):
    with pytest.raises(ValueError, match="at least two classes; the data has only 1 class"):
        kind().fit(X[:50], Y[:50])
    model = kind().partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"at least two classes.*partial_fit or made by from_statistics"):
        model.fit(scan_arrow(pd.DataFrame(X, columns=list("abcd")).assign(y=0), "y"))
    with pytest.raises(ValueError, match="at least two classes"):
        model.predict(pd.DataFrame(X, columns=list("abcd")))
    assert kind.from_statistics(model.statistics_).classes_.tolist() == [0]


@pytest.mark.slow_cases("Analysis-False")
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in GENERATIVE if kind is not GaussianNB])
def test_a_model_of_one_class_is_an_empirical_covariance(kind, exact):
    """Whether the rows were learnt in batches, or are those of a state whose labels are left out."""
    params = {"pooling": None, "subclasses": 1, "exact": exact}
    params = {name: value for name, value in params.items() if name in kind().get_params()}
    peer, batches = EmpiricalCovariance().fit(X), kind(**params)
    for rows in np.array_split(X, 7):
        batches.partial_fit(rows, np.zeros(len(rows), int))
    state = kind(**params).partial_fit(X, Y).statistics_.as_one_class()
    for model in (batches, kind.from_statistics(state, **params)):
        squared = model.mahalanobis(X)[:, 0] ** 2
        np.testing.assert_allclose(squared, peer.mahalanobis(X), rtol=1e-12)
        assert model.score_samples(X).mean() == pytest.approx(peer.score(X), rel=1e-12)
        np.testing.assert_allclose(model.p_values(X)[:, 0], chi2.sf(squared, 4), rtol=1e-12)


VARIANTS = [
    {},
    {"missing": "marginal"},
    {"exact": True},
    {"predictive": "student"},
    {"pooling": "bayes"},
    {"n_components": 2},
    {"shrinkage": "oas", "pooling": None},
    {"covariance_type": "full"},
    {"covariance_type": "diag"},
    {"priors": [0.2, 0.3, 0.5]},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "params"),
    [(kind, params) for kind in MODELS for params in VARIANTS if params.keys() <= kind().get_params().keys()],
)
def test_river_tests_then_trains(kind, params):
    """Rows of two classes take turns, and then comes the third."""
    pytest.importorskip("river")
    from river import compat, evaluate, metrics, stream

    order = np.r_[np.arange(8), 50 + np.arange(8)].reshape(2, 8).T.ravel().tolist() + list(range(100, 104))
    rows = X if "missing" not in params else np.where(np.arange(600).reshape(X.shape) % 7, X, np.nan)
    model = compat.convert_sklearn_to_river(kind(**params), classes=[0, 1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        metric = evaluate.progressive_val_score(
            stream.iter_array(rows[order], Y[order]), model, metrics.ConfusionMatrix()
        )
    assert metric.total_weight == len(order)


def test_river_tells_the_classes_that_are_announced():
    pytest.importorskip("river")
    from river import compat

    model = compat.convert_sklearn_to_river(GaussianNB(), classes=[0, 1, 2])
    for row, label in zip(X[::2], Y[::2], strict=True):
        if label != 1:
            model.learn_one(dict(enumerate(row)), label)
    answer = model.predict_proba_one(dict(enumerate(X[120])))
    assert answer[1] == 0
    assert answer[2] == pytest.approx(1)


@pytest.mark.parametrize("kind", GENERATIVE)
def test_rows_that_determine_no_density_have_the_priors(kind):
    """Two rows that are alike, each of another class."""
    model = kind(priors={0: 0.25, 1: 0.75}).partial_fit([[1.0, 2.0], [1.0, 2.0]], [0, 1], classes=[0, 1, 2])
    with pytest.warns(UserWarning, match="no class can be estimated yet, so each row gets the priors"):
        assert model.predict_proba([[0.0, 5.0]]).round(9).tolist() == [[0.25, 0.75, 0.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict([[0.0, 5.0]]).tolist() == [1]
    with pytest.raises(np.linalg.LinAlgError):
        model.score_samples([[0.0, 5.0]])
