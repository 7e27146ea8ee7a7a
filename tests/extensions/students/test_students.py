"""Predictive densities, against scipy.stats and published posteriors."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.datasets import load_iris

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

IRIS = load_iris(return_X_y=True)
WEIGHTS = 1.0 + np.arange(150) % 3
MODELS = [
    QuadraticDiscriminantAnalysis(predictive="student"),
    QuadraticDiscriminantAnalysis(predictive="student", pooling=0.3),
    QuadraticDiscriminantAnalysis(predictive="student", pooling="bayes"),
    LinearDiscriminantAnalysis(predictive="student"),
]
ALL = pytest.mark.parametrize("model", MODELS, ids=str)


def reference(model):
    """The Student t density of each class as it is published, from the scatters: (centre, shape, degrees)."""
    X, y = IRIS
    d, total = X.shape[1], WEIGHTS.sum()
    n = np.bincount(y, WEIGHTS)
    means = [np.average(X[y == k], axis=0, weights=WEIGHTS[y == k]) for k in range(3)]
    scatters = np.array(
        [(X[y == k] - means[k]).T * WEIGHTS[y == k] @ (X[y == k] - means[k]) for k in range(3)]
    )
    pooled = scatters.sum(axis=0)
    densities = []
    for k in range(3):
        if isinstance(model, LinearDiscriminantAnalysis):
            degrees, scatter = total - 3 - d + 1, pooled
        elif model.pooling == "bayes":
            c = model.prior_rows_
            degrees, scatter = c + d + 1 + n[k] - d, c * pooled / total + scatters[k]
        else:
            share = model.pooling or 0.0
            degrees = (1 - share) * (n[k] - 1) + share * (total - 3) - d + 1
            scatter = (1 - share) * scatters[k] + share * pooled
        densities.append((means[k], scatter * (1 + 1 / n[k]) / degrees, degrees))
    return densities


def fitted(model, **params):
    return type(model)(**{**model.get_params(), **params}).fit(*IRIS, WEIGHTS)


@ALL
def test_scores_are_those_of_scipys_multivariate_t(model):
    X, y = IRIS
    model = fitted(model)
    densities = [stats.multivariate_t(*density) for density in reference(model)]
    joint = np.column_stack([density.logpdf(X) for density in densities]) + np.log(
        np.bincount(y, WEIGHTS) / 300
    )
    evidence = logsumexp(joint, axis=1)
    np.testing.assert_allclose(model.score_samples(X), evidence, rtol=1e-10)
    np.testing.assert_allclose(model.predict_log_proba(X), joint - evidence[:, None], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), joint, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), joint.argmax(axis=1))


@pytest.mark.parametrize(
    ("kind", "published"),
    [
        (LinearDiscriminantAnalysis, [0.734206547, 0.844145447, 0.280986166]),
        (QuadraticDiscriminantAnalysis, [0.618380176, 0.808814226, 0.383616421]),
    ],
)
def test_iris_posteriors_as_published(kind, published):
    X, y = IRIS
    model = kind(predictive="student").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[[70, 83, 133]])[:, 2], published, atol=5e-10)


@pytest.mark.parametrize("pooling", [None, 0.4, "bayes"])
def test_naive_bayes_multiplies_the_t_densities_of_the_features(pooling):
    X, y = IRIS
    model = GaussianNB(predictive="student", pooling=pooling, var_smoothing=0).fit(X, y)
    squares = np.array([((X[y == k] - X[y == k].mean(axis=0)) ** 2).sum(axis=0) for k in range(3)])
    if pooling == "bayes":
        degrees = model.prior_rows_ + 2 + 50 - 1
        sums = model.prior_rows_ * squares.sum(axis=0) / 150 + squares
    else:
        share = pooling or 0.0
        degrees = (1 - share) * 49 + share * 147
        sums = (1 - share) * squares + share * squares.sum(axis=0)
    scales = np.sqrt(sums * (1 + 1 / 50) / degrees)
    joint = np.column_stack(
        [stats.t(degrees, model.theta_[k], scales[k]).logpdf(X).sum(axis=1) for k in range(3)]
    ) + np.log(1 / 3)
    np.testing.assert_allclose(model.predict_joint_log_proba(X), joint, rtol=1e-11)
    distances = np.sqrt((((X[:, None] - model.theta_) / scales) ** 2).sum(axis=2))
    np.testing.assert_allclose(model.mahalanobis(X), distances, rtol=1e-12)


@ALL
def test_distances_are_in_the_shape_matrix_and_p_values_of_the_f_distribution(model):
    X = IRIS[0]
    model = fitted(model)
    distances, p_values = model.mahalanobis(X), model.p_values(X)
    for k, (centre, shape, degrees) in enumerate(reference(model)):
        squared = np.einsum("ni,ij,nj->n", X - centre, np.linalg.inv(shape), X - centre)
        np.testing.assert_allclose(distances[:, k], np.sqrt(squared), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(p_values[:, k], stats.f(4, degrees).sf(squared / 4), rtol=1e-8)


@ALL
def test_missing_values_leave_the_marginal_t(model):
    X = IRIS[0].copy()
    model = fitted(model, missing="marginal")
    X[:, [1, 2]] = np.nan
    observed = np.ix_([0, 3], [0, 3])
    joint = np.column_stack(
        [
            stats.multivariate_t(centre[[0, 3]], shape[observed], degrees).logpdf(X[:, [0, 3]])
            for centre, shape, degrees in reference(model)
        ]
    ) + np.log(model.priors_)
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-10)
    posteriors = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    expected = sum(
        posteriors[:, [k]]
        * (
            centre[[1, 2]]
            + (X[:, [0, 3]] - centre[[0, 3]]) @ np.linalg.solve(shape[observed], shape[[0, 3]][:, [1, 2]])
        )
        for k, (centre, shape, _) in enumerate(reference(model))
    )
    np.testing.assert_allclose(model.impute(X)[:, [1, 2]], expected, rtol=1e-9)
    empty = np.full((1, 4), np.nan)
    np.testing.assert_allclose(model.predict_proba(empty), [model.priors_], rtol=1e-12)
    np.testing.assert_array_equal(model.p_values(empty), 1.0)


@pytest.mark.parametrize("model", [*MODELS, GaussianNB(predictive="student", pooling="bayes")], ids=str)
def test_drawn_rows_have_the_distribution_that_p_values_assume(model):
    X, y = IRIS
    few = np.r_[0:7, 50:58, 100:112]  # degrees of freedom that tell a Student t from a normal
    model = type(model)(**model.get_params()).fit(X[few], y[few])
    rows, _ = model.sample(4000, 1, random_state=0)
    assert stats.kstest(model.p_values(rows)[:, 1], "uniform").pvalue > 1e-3
    np.testing.assert_array_equal(rows, model.sample(4000, 1, random_state=0)[0])


def test_one_feature_of_naive_bayes_has_the_p_value_of_its_t():
    X, y = IRIS
    model = GaussianNB(predictive="student", var_smoothing=0).fit(X[:, :1], y)
    scale = np.sqrt(X[y == 0, 0].var() * 50 / 49 * (1 + 1 / 50))
    expected = 2 * stats.t(49).sf(np.abs(X[:, 0] - X[y == 0, 0].mean()) / scale)
    np.testing.assert_allclose(model.p_values(X[:, :1])[:, 0], expected, rtol=1e-9)


@ALL
def test_rows_out_of_all_reach_are_no_error_of_arithmetic(model):
    far = np.array([[1e150, 0.0, 0.0, 0.0], [-3e152, 1e151, 0.0, 1.0]])
    model = fitted(model)
    assert np.isfinite(model.predict_log_proba(far)).all()
    np.testing.assert_allclose(model.p_values(far), 0.0, atol=1e-300)


# ---------------------------------------------------------------------- what a Student t has not


@ALL
def test_what_only_normal_densities_have_is_refused(model):
    model = fitted(model)
    with pytest.raises(ValueError, match="no quadric; predict_log_proba gives the log-odds"):
        model.boundary(0, 1)
    with pytest.raises(ValueError, match="scikit-learn has no student densities; set predictive='plugin'"):
        model.to_sklearn()
    if isinstance(model, LinearDiscriminantAnalysis):
        assert not hasattr(model, "coef_")
        with pytest.raises(AttributeError, match="no intercept_ with predictive='student'.* not linear"):
            _ = model.intercept_
        plugin = LinearDiscriminantAnalysis().fit(*IRIS, WEIGHTS)
        np.testing.assert_array_equal(model.transform(IRIS[0]), plugin.transform(IRIS[0]))


def test_the_likelihood_is_that_of_the_normal_densities():
    plugin, student = (QuadraticDiscriminantAnalysis(predictive=p).fit(*IRIS) for p in ("plugin", "student"))
    assert student.bic_ == plugin.bic_


@pytest.mark.parametrize(
    ("model", "few"),
    [
        (QuadraticDiscriminantAnalysis(predictive="student", reg_param=0.1), 4),
        (GaussianNB(predictive="student"), 1),
    ],
    ids=str,
)
def test_a_class_without_degrees_of_freedom_waits_for_rows(model, few):
    X, y = IRIS
    rows = np.r_[0:100, 100 : 100 + few]
    message = rf"class 2: {few} rows? \(of weight {few}\), too few for a Student t density; bring more rows"
    with pytest.raises(np.linalg.LinAlgError, match=message):
        type(model)(**model.get_params()).fit(X[rows], y[rows])
    model = type(model)(**model.get_params()).partial_fit(X[rows], y[rows])
    with pytest.warns(UserWarning, match="class 2 gets no posterior until it can be estimated"):
        assert set(model.predict(X)) == {0, 1}
    np.testing.assert_array_equal(model.predict_proba(X)[:, 2], 0.0)
    np.testing.assert_array_equal(model.mahalanobis(X)[:, 2], np.inf)
    np.testing.assert_array_equal(model.mahalanobis(X, [2] * len(X)), np.inf)
    np.testing.assert_array_equal(model.p_values(X)[:, 2], 0.0)
    with pytest.raises(np.linalg.LinAlgError, match=message):
        model.sample(3, 2)
    model.partial_fit(X[101 + few :], y[101 + few :])
    assert set(model.predict(X)) == {0, 1, 2}


def test_singular_says_what_becomes_of_such_a_class():
    X, y = IRIS
    rows = np.r_[0:100, 100:104]
    params = {"predictive": "student", "shrinkage": 0.2}
    with pytest.warns(UserWarning, match="class 2 gets no posterior"):
        QuadraticDiscriminantAnalysis(singular="skip", **params).fit(X[rows], y[rows])
    strict = QuadraticDiscriminantAnalysis(singular="raise", **params).partial_fit(X[rows], y[rows])
    with pytest.raises(np.linalg.LinAlgError, match="class 2: 4 rows"):
        strict.predict(X)
    young = QuadraticDiscriminantAnalysis(**params).partial_fit(X[48:56], [0, 0, 0, 0, 1, 1, 1, 1])
    with pytest.warns(UserWarning, match="no class can be estimated yet.* class 0: 4 rows"):
        np.testing.assert_array_equal(young.predict_proba(X[:1]), [[0.5, 0.5]])
    with pytest.raises(ValueError, match="4 rows .* of 3 classes are too few for Student t"):
        LinearDiscriminantAnalysis(predictive="student", shrinkage=0.5).fit(X[[0, 1, 60, 120]], [0, 0, 1, 2])


def test_a_class_of_one_row_has_a_density_with_pooling():
    X, y = IRIS
    rows = np.r_[0:101]
    for kind in (QuadraticDiscriminantAnalysis, GaussianNB):
        model = kind(pooling="bayes", predictive="student").fit(X[rows], y[rows])
        assert (model.predict_proba(X[100:])[:, 2] > 0).all()


def test_the_range_of_a_singular_covariance_has_more_degrees_of_freedom():
    X, y = IRIS
    wide = np.column_stack([X, X[:, 0] - X[:, 1]])
    for model in (LinearDiscriminantAnalysis(predictive="student"), MODELS[2]):
        slim = type(model)(**model.get_params()).fit(X, y)
        with pytest.warns(UserWarning, match="rank 4 of 5"):
            singular = type(model)(**model.get_params()).fit(wide, y)
        np.testing.assert_allclose(
            singular.predict_log_proba(wide), slim.predict_log_proba(X), rtol=1e-6, atol=1e-8
        )
        np.testing.assert_allclose(singular.p_values(wide), slim.p_values(X), rtol=1e-6)


@pytest.mark.parametrize("regularised", [{"shrinkage": 0.3}, {"reg_param": 0.1}], ids=str)
def test_regularised_densities_have_the_degrees_of_freedom_of_all_features(regularised):
    X, y = IRIS
    wide = np.column_stack([X, X[:, 0] - X[:, 1]])

    def pooled(share):
        return QuadraticDiscriminantAnalysis(pooling=share, predictive="student", **regularised).fit(wide, y)

    none = QuadraticDiscriminantAnalysis(predictive="student", **regularised).fit(wide, y)
    pairs = [(pooled(1e-12), none)]
    if "shrinkage" in regularised:
        pairs += [(pooled(1.0), LinearDiscriminantAnalysis(predictive="student", **regularised).fit(wide, y))]
    for model, limit in pairs:
        np.testing.assert_allclose(model.score_samples(wide), limit.score_samples(wide), rtol=1e-9)
        np.testing.assert_allclose(model.p_values(wide), limit.p_values(wide), rtol=1e-7)
    half, means = pooled(0.5), pooled(0.5).means_
    degrees = 0.5 * 49 + 0.5 * 147 - 5 + 1
    for k, covariance in enumerate(half._final_covariances()):
        shape = covariance * 100 / degrees * (1 + 1 / 50)  # the divisor is (50 + 150) / 2
        expected = stats.multivariate_t(means[k], shape, degrees).logpdf(wide)
        joint = half.predict_log_proba(wide)[:, k] + half.score_samples(wide)
        np.testing.assert_allclose(joint + np.log(3), expected, rtol=1e-8)
