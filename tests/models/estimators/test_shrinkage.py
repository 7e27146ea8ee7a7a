"""Shrinkage and regularisation against scikit-learn in memory, on rows cut, weighted, moved and scaled."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.covariance
import sklearn.discriminant_analysis
from scipy.optimize import minimize_scalar
from scipy.special import multigammaln
from sklearn.datasets import load_digits, load_iris, load_wine

from streamgda import ClassStatistics, GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from streamgda.models.gaussians.components import pooled_covariance

MODELS = [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis]
KINDS = [0.0, 0.3, 1.0, "auto", "oas"]
GRID = [(2, 1), (2, 2), (3, 7), (5, 20), (26, 3), (4, 60)]


def random_rows(n_classes, n_features, fewest=12):
    """Skewed rows of classes of unlike size."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(fewest, 5 * n_features + 20, size=n_classes)
    y = rng.permutation(np.repeat(np.arange(n_classes), sizes))
    mixing = rng.normal(size=(n_classes, n_features, n_features)) / n_features + np.eye(n_features)
    noise = rng.exponential(size=(len(y), n_features)) - 1
    means = rng.normal(size=(n_classes, n_features))
    return np.einsum("nj,nij->ni", noise, mixing[y]) + means[y], y


class PooledOAS(sklearn.discriminant_analysis.LinearDiscriminantAnalysis):
    """scikit-learn's LDA, with the share that its OAS finds for the deviations from the class means."""

    def fit(self, X, y):
        means = np.array([X[y == label].mean(axis=0) for label in np.unique(y)])
        deviations = X - means[np.unique(y, return_inverse=True)[1]]
        self.shrinkage = sklearn.covariance.OAS(assume_centered=True).fit(deviations).shrinkage_
        return super().fit(X, y)


def peer_of(model, shrinkage):
    if model is LinearDiscriminantAnalysis and shrinkage == "oas":
        return PooledOAS(solver="lsqr")
    how = (
        {"covariance_estimator": sklearn.covariance.OAS()} if shrinkage == "oas" else {"shrinkage": shrinkage}
    )
    if model is LinearDiscriminantAnalysis:
        return sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr", **how)
    return sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis(
        solver="eigen", store_covariance=True, tol=0, **how
    )


def covariances(model):
    """One matrix, or one for each class, in the shape of many."""
    matrices = np.asarray(model.set_params(store_covariance=True).covariance_)
    return matrices.reshape(-1, *matrices.shape[-2:])


def assert_same_covariances(ours, theirs, rtol=1e-8):
    """On the scale of the features of each class."""
    expected = covariances(theirs)
    roots = np.sqrt(np.einsum("kii->ki", expected))
    assert covariances(ours).shape == expected.shape
    assert (np.abs(covariances(ours) - expected) <= rtol * roots[:, :, None] * roots[:, None, :]).all()


def assert_same_model(ours, theirs, X, atol=1e-7):
    assert_same_covariances(ours, theirs)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-5, atol=atol)


def streamed(model, X, y, batch, sample_weight=None):
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    for start in range(0, len(y), batch):
        rows = slice(start, start + batch)
        model.partial_fit(X[rows], y[rows], sample_weight=weights[rows])
    return model


# ---------------------------------------------------------------------- as scikit-learn


@pytest.mark.slow_cases("-2-1-", "-2-2-", "-4-60", "26-3")
@pytest.mark.parametrize("shrinkage", KINDS)
@pytest.mark.parametrize(("n_classes", "n_features"), GRID)
@pytest.mark.parametrize("model", MODELS)
def test_the_same_as_scikit_learn(model, n_classes, n_features, shrinkage):
    X, y = random_rows(n_classes, n_features, fewest=n_features + 2 if shrinkage == 0.0 else 5)
    theirs = peer_of(model, shrinkage).fit(X, y)
    assert_same_model(model(shrinkage=shrinkage).fit(X, y), theirs, X)
    assert_same_model(streamed(model(shrinkage=shrinkage), X, y, 37), theirs, X)


@pytest.mark.slow_cases("e-07", "oas", "1048576.0-1.0")
@pytest.mark.parametrize(("unit", "offset"), [(2.0**20, 1.0), (2.0**-20, -1e3), (2.0**20, 1e6)])
@pytest.mark.parametrize("shrinkage", ["auto", "oas", 0.2])
@pytest.mark.parametrize("model", MODELS)
def test_the_same_at_any_offset_and_scale(model, shrinkage, unit, offset):
    X, y = random_rows(3, 5)
    X = (X + offset) * np.array([unit, 1, 1, unit, 1])
    theirs = peer_of(model, shrinkage).fit(X, y)
    assert_same_covariances(model(shrinkage=shrinkage).fit(X, y), theirs)
    assert_same_covariances(streamed(model(shrinkage=shrinkage), X, y, 1), theirs)


@pytest.mark.parametrize("shrinkage", ["auto", "oas"])
@pytest.mark.parametrize("model", MODELS)
def test_the_sum_of_the_weights_is_the_number_of_rows(model, shrinkage):
    """Of importance weights, as of repetitions: half the weight shrinks more, for the same ratios."""
    X, y = random_rows(3, 8)
    whole = model(shrinkage=shrinkage).fit(X, y)
    halved = model(shrinkage=shrinkage).fit(X, y, sample_weight=np.full(len(y), 0.5))
    decayed = model(shrinkage=shrinkage).fit(X, y)
    decayed.statistics_.decay(0.5)
    assert_same_covariances(halved, decayed, rtol=1e-12)
    off_diagonal = ~np.eye(8, dtype=bool)
    left = [np.abs(covariances(fitted)[:, off_diagonal]).sum() for fitted in (whole, halved)]
    assert left[1] < 0.9 * left[0]


@pytest.mark.parametrize("reg_param", [0.0, 1e-3, 0.5, 1.0])
@pytest.mark.parametrize(("n_classes", "n_features"), [(2, 1), (3, 7), (26, 3)])
def test_reg_param_is_scikit_learns(n_classes, n_features, reg_param):
    X, y = (part.repeat(3, axis=0) for part in random_rows(n_classes, n_features))
    X = X + np.random.default_rng(1).normal(size=X.shape) / 2
    theirs = sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=reg_param, tol=0).fit(X, y)
    ours = QuadraticDiscriminantAnalysis(reg_param=reg_param).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-7, atol=1e-9)
    plain = QuadraticDiscriminantAnalysis().fit(X, y)
    expected = (1 - reg_param) * covariances(plain) + reg_param * np.eye(n_features)
    np.testing.assert_allclose(covariances(ours), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("load", "more", "best"),
    [
        (load_iris, {10: 2.627746161, 100: -34.365393401}, 4.358004),
        (load_wine, {10: 134.054859507, 100: 131.114390266}, 29.929675),
    ],
)
def test_shares_by_the_evidence_are_those_of_the_definition(load, more, best):
    """ln p(W | c) of a Wishart scatter and an inverse Wishart prior, less that at c = 1."""
    X, y = load(return_X_y=True)
    model = LinearDiscriminantAnalysis("lsqr", "bayes").fit(X, y)
    assert model.statistics_.covariance_type == "tied"
    n, d, within = len(X) - 3, X.shape[1], pooled_covariance(model.statistics_)
    eigenvalues = len(X) * np.linalg.eigvalsh(within / np.sqrt(np.outer(np.diag(within), np.diag(within))))

    def evidence(c):
        nu = c + d + 1
        gammas = multigammaln((nu + n) / 2, d) - multigammaln(nu / 2, d)
        return nu * d / 2 * np.log(c) - (nu + n) / 2 * np.log(c + eigenvalues).sum() + gammas

    for c, expected in more.items():
        assert evidence(c) - evidence(1.0) == pytest.approx(expected, abs=1e-8)
    found = minimize_scalar(lambda c: -evidence(c), bounds=(0.01, 1000), method="bounded")
    assert model.shrinkage_ * len(X) / (1 - model.shrinkage_) == pytest.approx(best, rel=1e-6)
    assert model.shrinkage_ == pytest.approx(found.x / (found.x + len(X)), rel=1e-5)
    expected = (found.x * np.diag(np.diag(within)) + len(X) * within) / (found.x + len(X))
    np.testing.assert_allclose(model.covariance_, expected, rtol=1e-5)
    scaled = LinearDiscriminantAnalysis(shrinkage="bayes").fit(X * np.logspace(-6, 6, d), y)
    assert scaled.shrinkage_ == pytest.approx(model.shrinkage_, rel=1e-9)


def test_shares_by_the_evidence_are_of_the_directions_in_which_rows_vary():
    """Else a feature that is twice there would make c fall to zero, as no normal row has it."""
    X, y = random_rows(3, 5)
    plain = LinearDiscriminantAnalysis(shrinkage="bayes").fit(X, y)
    with pytest.warns(UserWarning, match="rank 5 of 6"):
        constant = LinearDiscriminantAnalysis(shrinkage="bayes").fit(np.column_stack([X, X[:, 0] * 0]), y)
    assert constant.shrinkage_ == pytest.approx(plain.shrinkage_, rel=1e-9)
    np.testing.assert_allclose(constant.coef_[:, :5], plain.coef_, rtol=1e-8)
    twice = LinearDiscriminantAnalysis(shrinkage="bayes").fit(np.column_stack([X, X[:, 0]]), y)
    assert 1e-4 < twice.shrinkage_ < 0.5
    digits, labels = load_digits(return_X_y=True)
    with warnings.catch_warnings(action="ignore"):  # of pixels that are constant
        few, many = (
            LinearDiscriminantAnalysis(shrinkage="bayes").fit(digits[:n], labels[:n]) for n in (60, 900)
        )
        plain = LinearDiscriminantAnalysis().fit(digits[:60], labels[:60])
    assert few.score(digits, labels) > plain.score(digits, labels) + 0.05  # with fewer rows than features
    assert few.shrinkage_ > 5 * many.shrinkage_ > 0


# ---------------------------------------------------------------------- where it is hard


@pytest.mark.filterwarnings("ignore::streamgda.DoubtfulModelWarning")  # of the classes 1e8 apart
@pytest.mark.slow_cases("oas", "0.0-0.1", "-0.1-")
@pytest.mark.parametrize("shrinkage", ["auto", "oas", 0.1])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.1])
@pytest.mark.parametrize("model", MODELS)
def test_constant_features_as_in_scikit_learn(model, value, shrinkage):
    X, y = random_rows(3, 4)
    X = np.insert(X, [0, 2], value, axis=1)
    X[y == 1, 1] = value
    assert_same_covariances(model(shrinkage=shrinkage).fit(X, y), peer_of(model, shrinkage).fit(X, y))
    assert_same_covariances(
        streamed(model(shrinkage=shrinkage), X, y, 5), peer_of(model, shrinkage).fit(X, y)
    )


@pytest.mark.filterwarnings("ignore::streamgda.DoubtfulModelWarning")  # of few rows
@pytest.mark.parametrize("n_constant", [1, 300])
def test_images_with_constant_pixels(n_constant):
    """As in MNIST, hundreds of pixels that are always 0, and some that are so in one class alone."""
    X, y = random_rows(3, 6)
    padded = np.pad(X, ((0, 0), (n_constant, 0)))
    padded[y == 2, -1] = 0.0
    kept = padded[:, n_constant:]
    with pytest.warns(UserWarning, match=f"rank 6 of {6 + n_constant}"):
        linear = LinearDiscriminantAnalysis().fit(padded, y)
    expected = LinearDiscriminantAnalysis().fit(kept, y).predict_proba(kept)
    np.testing.assert_allclose(linear.predict_proba(padded), expected, rtol=1e-8)
    naive = GaussianNB(var_smoothing=1e-3).fit(padded, y)
    np.testing.assert_allclose(
        naive.predict_proba(padded),
        GaussianNB(var_smoothing=1e-3).fit(kept, y).predict_proba(kept),
        rtol=1e-8,
    )
    for params in ({"shrinkage": "auto"}, {"shrinkage": 0.01}, {"reg_param": 0.1}):
        quadratic = QuadraticDiscriminantAnalysis(**params).fit(padded, y)
        assert np.isfinite(quadratic.predict_log_proba(padded)).all()
        assert quadratic.score(padded, y) > 0.5
    with pytest.raises(np.linalg.LinAlgError, match="class 0 .*constant in it: 0"):
        QuadraticDiscriminantAnalysis().fit(padded, y)


@pytest.mark.parametrize("shrinkage", KINDS)
def test_a_class_of_one_row_adds_no_scatter(shrinkage):
    X, y = random_rows(2, 3)
    X, y = np.vstack([X, [[9.0, 9.0, 9.0]]]), np.append(y, 2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Only one sample available")
        theirs = peer_of(LinearDiscriminantAnalysis, shrinkage).fit(X, y)
    ours = LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(X, y)
    assert_same_model(ours, theirs, X)
    assert_same_model(streamed(LinearDiscriminantAnalysis(shrinkage=shrinkage), X, y, 1), theirs, X)
    with pytest.raises(np.linalg.LinAlgError, match=r"class 2.*rank 0 of 3, from 1 row;.*Set (reg|pool)"):
        QuadraticDiscriminantAnalysis(shrinkage=shrinkage).fit(X, y)
    regularised = QuadraticDiscriminantAnalysis(shrinkage=shrinkage, reg_param=0.5).fit(X, y)
    np.testing.assert_array_equal(covariances(regularised)[2], 0.5 * np.eye(3))
    assert regularised.predict([[9.0, 9.0, 9.0]]).tolist() == [2]


@pytest.mark.parametrize("shrinkage", [0.0, "auto"])
def test_two_rows_are_too_few_to_shrink_by(shrinkage):
    """Ledoit & Wolf see no error in two rows, as in scikit-learn; the remedy named is one that works."""
    X, y = random_rows(2, 3)
    X, y = np.vstack([X, [[9.0, 9.0, 9.0], [8.0, 9.5, 7.0]]]), np.append(y, [2, 2])
    with pytest.raises(np.linalg.LinAlgError, match="not full rank"):
        peer_of(QuadraticDiscriminantAnalysis, shrinkage).set_params(tol=1e-10).fit(X, y)
    named = {"reg_param": 0.1} if shrinkage else {"pooling": "bayes"}
    remedy = f"rank 1 of 3, from 2 rows.*Set {next(iter(named))}"
    with pytest.raises(np.linalg.LinAlgError, match=f"class 2 .*{remedy}"):
        QuadraticDiscriminantAnalysis(shrinkage=shrinkage).fit(X, y)
    for params in ({"shrinkage": 0.1}, {"shrinkage": "oas"}, {"shrinkage": shrinkage, **named}):
        assert QuadraticDiscriminantAnalysis(**params).fit(X, y).score(X, y) > 0.8


# ---------------------------------------------------------------------- how it is used


def test_each_asks_for_no_more_than_it_needs():
    X, y = random_rows(3, 4)
    for model, shrinkage, kind, fourth in (
        (LinearDiscriminantAnalysis, None, "tied", False),
        (LinearDiscriminantAnalysis, 0.5, "tied", False),
        (LinearDiscriminantAnalysis, "oas", "tied", False),
        (LinearDiscriminantAnalysis, "bayes", "tied", False),
        (LinearDiscriminantAnalysis, "auto", "full", True),
        (QuadraticDiscriminantAnalysis, 0.5, "full", False),
        (QuadraticDiscriminantAnalysis, "oas", "full", False),
        (QuadraticDiscriminantAnalysis, "auto", "full", True),
    ):
        state = model(shrinkage=shrinkage).fit(X, y).statistics_
        assert (state.covariance_type, state.fourth_moments is not None) == (kind, fourth)


def test_what_the_state_does_not_hold():
    X, y = random_rows(3, 4)
    for model in MODELS:
        with pytest.raises(ValueError, match=r"accumulate with fourth_moments=True"):
            model.from_statistics(ClassStatistics().update(X, y), shrinkage="auto")
        changed = model().fit(X, y).set_params(shrinkage="auto")
        with pytest.raises(
            ValueError,
            match=r"shrinkage='auto'.*fit with this shrinkage.*covariance_type='full', fourth_moments=True",
        ):
            changed.predict(X)
        changed.set_params(shrinkage=0.5)
        np.testing.assert_array_equal(changed.predict(X), model(shrinkage=0.5).fit(X, y).predict(X))
    tied = LinearDiscriminantAnalysis().fit(X, y).statistics_
    with pytest.raises(ValueError, match="does not hold what 'full' needs"):
        QuadraticDiscriminantAnalysis.from_statistics(tied, shrinkage="oas")
    rich = LinearDiscriminantAnalysis(shrinkage="auto").fit(X, y)
    for shrinkage in (None, 0.5, "oas", "bayes"):
        expected = LinearDiscriminantAnalysis("lsqr", shrinkage).fit(X, y).covariance_
        np.testing.assert_allclose(
            rich.set_params(shrinkage=shrinkage, solver="lsqr").covariance_, expected, rtol=1e-9
        )


# ---------------------------------------------------------------------- what a singular class is told


def test_the_error_names_what_is_constant_and_what_is_collinear():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(200) % 2, "odd", "even")
    X = pd.DataFrame(rng.normal(size=(200, 6)), columns=["u", "v", "w", "free", "sum", "flat"])
    X.loc[y == "odd", "sum"] = 1e6 * (X["u"] - 2 * X["w"])
    X.loc[y == "odd", "flat"] = 7.1
    with pytest.raises(np.linalg.LinAlgError) as caught:
        QuadraticDiscriminantAnalysis().fit(X, y)
    message = str(caught.value)
    assert message.startswith(
        "The covariance matrix of class odd is not full rank. Increase the value of `reg"
    )
    assert "It has rank 4 of 6, from 100 rows" in message
    assert message.endswith("constant in it: 'flat'; collinear in it: 'u', 'w', 'sum'")
    for remedy in ({"shrinkage": "auto"}, {"shrinkage": "oas"}, {"reg_param": 1e-3}):
        assert QuadraticDiscriminantAnalysis(**remedy).fit(X, y).score(X, y) == 1.0


def test_the_error_is_short_where_much_is_wrong():
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = np.pad(rng.normal(size=(100, 2)), ((0, 0), (0, 40)))
    with pytest.raises(
        np.linalg.LinAlgError, match="constant in it: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 30 more"
    ):
        QuadraticDiscriminantAnalysis().fit(X, y)
    few = rng.normal(size=(100, 60))
    with pytest.raises(
        np.linalg.LinAlgError, match="rank 49 of 60, from 50 rows.*no more rows than features"
    ):
        QuadraticDiscriminantAnalysis().fit(few, y)
    assert QuadraticDiscriminantAnalysis(shrinkage="auto").fit(few, y).score(few, y) > 0.9


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_automatic_shrinkage_does_not_depend_on_units(unit):
    X, y = random_rows(3, 4)
    expected = QuadraticDiscriminantAnalysis(shrinkage="auto").fit(X, y).predict_proba(X)
    scaled = X * [unit, 1, 1, 1 / unit]
    fitted = QuadraticDiscriminantAnalysis(shrinkage="auto").fit(scaled, y)
    np.testing.assert_allclose(fitted.predict_proba(scaled), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("unit", [2.0**-330, 2.0**-260, 2.0**260, 2.0**500])
@pytest.mark.parametrize("model", MODELS)
def test_oas_does_not_depend_on_a_common_unit(model, unit):
    X, y = random_rows(3, 4)
    expected = model(shrinkage="oas").fit(X, y).predict_proba(X)
    fitted = model(shrinkage="oas").fit(X * unit, y)
    np.testing.assert_allclose(fitted.predict_proba(X * unit), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_fourth_powers_below_float64_are_refused(model):
    X, y = random_rows(3, 4)
    with pytest.raises(ValueError, match="class 0: deviations are so small .* power of ten"):
        model(shrinkage="auto").fit(X * [1, 1e-100, 1, 1], y)
