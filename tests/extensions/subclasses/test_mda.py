"""Mixture discriminant analysis: values computed elsewhere, laws of its state, and what users meet."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.datasets import load_iris

from streamgda import (
    ClassStatistics,
    GaussianNB,
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsLedger,
    StatisticsSearchCV,
    SubclassCenters,
    Subclasses,
    accumulate,
    cross_validate,
    evaluate,
    from_bytes,
    learning_curve,
    predict_dataset,
    scan_arrow,
    scan_dask,
    scan_parquet,
)
from streamgda.data.blocks.block import FoldRule
from streamgda.data.blocks.labels import divided_labels
from streamgda.jobs.scoring.evaluation import LEAST_LOG_PROBABILITY
from tests.reference import log_joint


def errors_and_log_loss(model, X, y):
    log_probability = model.predict_log_proba(X)[np.arange(len(X)), np.searchsorted(model.classes_, y)]
    return (model.predict(X) != y).sum(), -np.maximum(log_probability, LEAST_LOG_PROBABILITY).mean()


@pytest.mark.parametrize(
    ("covariance_type", "errors", "log_loss"), [("full", 1, 0.031855590), ("tied", 3, 0.042596095)]
)
def test_iris_by_the_median_of_petal_length(covariance_type, errors, log_loss):
    X, y = load_iris(return_X_y=True)
    above = X[:, 2] > np.array([np.median(X[y == k, 2]) for k in range(3)])[y]
    state = ClassStatistics(covariance_type).update(X, divided_labels(y, above))
    model = MixtureDiscriminantAnalysis.from_statistics(state, covariance_type=covariance_type, pooling=None)
    found = errors_and_log_loss(model, X, y)
    assert found[0] == errors
    np.testing.assert_allclose(found[1], log_loss, atol=5e-10)


# ---------------------------------------------------------------------- laws

KINDS = {"full": QuadraticDiscriminantAnalysis, "tied": LinearDiscriminantAnalysis, "diag": GaussianNB}


def clustered(seed=0, n=1200, labels=("a", "b", "c")):
    """Rows of classes of two clusters each, with values of three digits."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(len(labels), n, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(n, 3)) @ [[1, 0.5, 0], [0, 1, 0.3], [0, 0, 0.1]] + codes[:, None]
    X += np.outer(6.0 * rng.integers(0, 2, n), [1, -1, 0.2])
    return X.round(3), np.array(labels)[codes]


@pytest.fixture(scope="module")
def rows():
    return clustered()


@pytest.fixture(scope="module")
def sources(rows, tmp_path_factory):
    """The same rows, in other files, row groups, orders and types of storage."""
    X, y = rows
    table = pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "y": y})
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
    folder = tmp_path_factory.mktemp("rows")
    cuts = {"one": (table, 1200, 1200), "many": (table, 170, 31), "shuffled": (shuffled, 500, 100)}
    for name, (content, n_rows, n_group) in cuts.items():
        (folder / name).mkdir()
        for start in range(0, len(content), n_rows):
            path = folder / name / f"{start:05}.parquet"
            pq.write_table(content.slice(start, n_rows), path, row_group_size=n_group)
    dask = scan_dask(dd.from_pandas(table.to_pandas(), npartitions=7), target="y")
    return [*(scan_parquet(folder / name, "y") for name in cuts), scan_arrow(table, "y"), dask]


@pytest.mark.slow
@pytest.mark.parametrize("covariance_type", KINDS)
def test_any_partition_of_a_source_gives_the_same_model(sources, covariance_type):
    how = {"exact": True, "covariance_type": covariance_type}
    models = [MixtureDiscriminantAnalysis(4, **how).fit(source) for source in sources]
    assert {model.n_reads_ for model in models} == {2}
    for model in models:
        assert model.subclass_centers_ == models[0].subclass_centers_
        assert model.statistics_ == models[0].statistics_


def test_weights_are_repetitions(rows):
    X, y = rows
    w = np.random.default_rng(2).integers(0, 4, len(X))
    weighted = MixtureDiscriminantAnalysis(2, exact=True).fit(X, y, sample_weight=w)
    repeated = MixtureDiscriminantAnalysis(2, exact=True).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.subclass_centers_ == repeated.subclass_centers_
    np.testing.assert_array_equal(weighted.statistics_.means, repeated.statistics_.means)


@pytest.mark.parametrize("covariance_type", KINDS)
@pytest.mark.parametrize("params", [{}, {"priors": [0.2, 0.3, 0.5]}, {"predictive": "student"}])
def test_one_subclass_is_the_plain_model_to_the_bit(rows, covariance_type, params):
    X, y = rows
    plain = KINDS[covariance_type](**params).fit(X, y)
    how = {"covariance_type": covariance_type, "pooling": None, **params}
    model = MixtureDiscriminantAnalysis(1, **how).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(model.score_samples(X), plain.score_samples(X))


@pytest.mark.parametrize("covariance_type", KINDS)
def test_class_statistics_are_those_of_the_plain_model(rows, covariance_type):
    X, y = rows
    model = MixtureDiscriminantAnalysis(3, covariance_type=covariance_type, exact=True).fit(X, y)
    assert len(model.subclasses_) == 9
    assert model.class_statistics() == KINDS[covariance_type](exact=True).fit(X, y).statistics_
    assert QuadraticDiscriminantAnalysis(exact=True).fit(X, y).merge(
        MixtureDiscriminantAnalysis(exact=True).fit(X, y).statistics_
    ).classes_.tolist() == ["a", "b", "c"]


def test_each_row_is_of_the_nearest_centre_of_its_class(rows):
    X, y = rows
    model = MixtureDiscriminantAnalysis(3).fit(X, y)
    within = LinearDiscriminantAnalysis(store_covariance=True).fit(X, y).covariance_
    for label, centers in model.subclass_centers_.items():
        own = X[y == label]
        nearest = cdist(own, centers, "mahalanobis", VI=np.linalg.inv(within)).argmin(axis=1)
        for j in range(3):
            at = model.subclasses_.index((label, j))
            np.testing.assert_allclose(model.subclass_means_[at], own[nearest == j].mean(axis=0))
            assert model.statistics_.counts[at] == (nearest == j).sum()


@pytest.mark.parametrize("covariance_type", ["full", "tied"])
def test_densities_are_those_of_scipys_mixtures(rows, covariance_type):
    X, y = rows
    priors = np.array([0.2, 0.2, 0.6])
    how = {"covariance_type": covariance_type, "pooling": None, "priors": priors}
    model = MixtureDiscriminantAnalysis(2, **how).fit(X, y)
    state = model.statistics_
    covariances = np.broadcast_to(state.covariance(), (6, 3, 3))
    log_densities = log_joint(X, state.means, covariances, model.subclass_weights_)
    joint = logsumexp(log_densities.reshape(len(X), 3, 2), axis=2) + np.log(priors)
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-10)
    expected = joint - logsumexp(joint, axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_log_proba(X), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(np.exp(expected), model.predict_proba(X), atol=1e-12)
    distances = np.column_stack(
        [
            cdist(X, mean[None], "mahalanobis", VI=np.linalg.inv(covariance))[:, 0]
            for mean, covariance in zip(state.means, covariances, strict=True)
        ]
    ).reshape(len(X), 3, 2)
    np.testing.assert_allclose(model.mahalanobis(X), distances.min(axis=2), rtol=1e-9)
    tails = chi2(3).sf(distances**2).max(axis=2)
    np.testing.assert_allclose(model.p_values(X), tails, atol=1e-12)


def test_samples_have_the_moments_of_the_classes(rows):
    model = MixtureDiscriminantAnalysis(2, covariance_type="tied").fit(*rows)
    X, y = model.sample(20_000, random_state=0)
    np.testing.assert_allclose([(y == k).mean() for k in "abc"], model.priors_, atol=0.02)
    plain = model.class_statistics()
    for k, label in enumerate("abc"):
        own = X[y == label]
        scale = np.sqrt(np.diag(plain.covariance()) / len(own))
        assert (np.abs(own.mean(axis=0) - plain.means[k]) < 5 * scale).all()


def test_imputed_values_are_conditional_means_of_the_mixture(rows):
    X, y = rows
    model = MixtureDiscriminantAnalysis(2, pooling=None).fit(X, y)
    state = model.statistics_
    x = X[7].copy()
    shares, of_two = state.weights / state.weights.sum(), state.covariance()[:, ::2, ::2]
    (log_weights,) = log_joint(x[::2], state.means[:, ::2], of_two, shares)
    means = [
        m[1] + c[1, [0, 2]] @ np.linalg.solve(c[np.ix_([0, 2], [0, 2])], x[[0, 2]] - m[[0, 2]])
        for m, c in zip(state.means, state.covariance(), strict=True)
    ]
    expected = np.exp(log_weights - logsumexp(log_weights)) @ means
    x[1] = np.nan
    np.testing.assert_allclose(model.impute([x])[0, 1], expected, rtol=1e-9)


@pytest.mark.slow_cases("full", "diag")
@pytest.mark.parametrize("covariance_type", KINDS)
def test_a_saved_model_is_the_same(rows, covariance_type):
    X, y = rows
    holes = X.copy()
    holes[::5, 1] = np.nan
    for values, how in (
        (X, {"subclasses": {"a": 3, "b": 2}}),
        (X, {"exact": True, "subclasses": SubclassCenters({"a": X[y == "a"][:2]}, np.eye(3))}),
        (holes, {"missing": "marginal"}),
    ):
        model = MixtureDiscriminantAnalysis(covariance_type=covariance_type, **how).fit(values, y)
        loaded = from_bytes(model.to_bytes())
        assert loaded.statistics_ == model.statistics_
        assert loaded.subclasses == model.subclasses
        np.testing.assert_array_equal(loaded.predict_proba(values), model.predict_proba(values))
        loaded.merge(model)
        again = loaded.fit(values, y)
        assert again.statistics_ == model.statistics_


def test_a_row_with_a_missing_value_is_of_the_centre_nearest_by_what_is_observed():
    centers = SubclassCenters({0: [[0.0, 0.0], [4.0, 1.0]]}, [[1.0, 0.0], [0.0, 0.01]])
    state = IncompleteStatistics()
    state.rule = centers
    state.update([[1.0, 0.9], [1.0, np.nan], [np.nan, 0.9], [np.nan, np.nan]], [0] * 4)
    assert state.classes.tolist() == [(0, 0), (0, 1)]
    assert state.counts.tolist() == [2, 2]  # by both features and the second alone, of the second centre


# ---------------------------------------------------------------------- streams that draw their own centres


def test_a_stream_draws_the_centres_of_a_class_in_the_first_batch_with_enough_rows(rows):
    X, y = rows
    model = MixtureDiscriminantAnalysis(Subclasses(2, rows_per_class=100))
    model.partial_fit(X[:150], y[:150])
    assert model.subclasses_ == [("a", 0), ("b", 0), ("c", 0)]
    model.partial_fit(X[150:400], y[150:400])
    assert model.subclasses_ == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0)]
    model.partial_fit(X[400:], y[400:])
    assert len(model.subclasses_) == 9
    counts = model.statistics_.counts
    assert counts[0] == (y[:150] == "a").sum()  # those before are apart, and stay so
    first = model.subclass_centers_
    model.partial_fit(X, y).partial_fit([[1.0, 2.0, 3.0]], ["d"])
    assert model.subclass_centers_ == first
    assert model.statistics_.counts[0] == counts[0]
    assert model.subclasses_[-1] == ("d", 0)


def test_a_refused_batch_changes_nothing(rows):
    X, y = rows
    model = MixtureDiscriminantAnalysis(2).partial_fit(X[:100], y[:100])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.where(X > 0, X, np.nan), y)
    assert from_bytes(before).statistics_ == model.statistics_


# ---------------------------------------------------------------------- what users meet


def test_classes_of_few_rows_have_one_subclass(rows):
    X, y = rows
    few = np.concatenate(
        [np.flatnonzero(y == "a"), np.flatnonzero(y == "b")[:39], np.flatnonzero(y == "c")[:1]]
    )
    model = MixtureDiscriminantAnalysis(4).fit(X[few], y[few])
    assert [label for label, _ in model.subclasses_] == ["a"] * 4 + ["b", "c"]
    assert np.isfinite(model.predict_proba(X)).all()


def test_identical_rows_and_constant_features():
    X = np.repeat([[0.0, 1.0], [5.0, 1.0], [9.0, 1.0]], 100, axis=0)
    y = np.repeat([0, 0, 1], 100)
    model = MixtureDiscriminantAnalysis(3, covariance_type="diag", pooling=None).fit(X, y)
    assert model.subclasses_ == [(0, 0), (0, 1), (1, 0)]
    assert model.score(X, y) == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"subclasses": {"z": 2}}, "subclasses names 'z', which is none of the classes"),
        ({"subclasses": {"a": 0}}, r"n\['a'\] must be a whole number, at least 1"),
        ({"subclasses": 0}, "'subclasses' parameter"),
        ({"covariance_type": "tied", "reg_param": 0.1}, "covariance_type='tied' takes no reg_param"),
        ({"covariance_type": "diag", "shrinkage": 0.1}, "covariance_type='diag' takes no shrinkage"),
        ({"subclasses": [[0.0, 1.0, 2.0]]}, "'subclasses' parameter"),
        ({"shrinkage": "oas"}, "set shrinkage to a number or to None"),
        ({"shrinkage": "bayes"}, "'shrinkage' parameter of QuadraticDiscriminantAnalysis"),
    ],
)
def test_what_cannot_be_is_said(rows, params, message):
    with pytest.raises(ValueError, match=message):
        MixtureDiscriminantAnalysis(**params).fit(*rows)


@pytest.mark.parametrize("shrinkage", ["oas", "bayes"])
def test_tied_mixtures_are_shrunk_as_lda_of_the_subclasses(rows, shrinkage):
    X, y = rows
    model = MixtureDiscriminantAnalysis(2, covariance_type="tied", shrinkage=shrinkage).fit(X, y)
    numbered = model.statistics_.of_classes(np.arange(6), np.arange(6))
    linear = LinearDiscriminantAnalysis.from_statistics(numbered, shrinkage=shrinkage)
    by_subclass = linear.mahalanobis(X).reshape(len(X), 3, 2)
    np.testing.assert_allclose(model.mahalanobis(X), by_subclass.min(axis=2), rtol=1e-9)


def test_how_centres_are_drawn_is_an_option(rows):
    X, y = rows
    model = MixtureDiscriminantAnalysis(2)
    assert model.set_params(subclasses__rows_per_class=50).subclasses == Subclasses(2, rows_per_class=50)
    assert from_bytes(model.fit(X, y).to_bytes()).subclasses == model.subclasses
    few = MixtureDiscriminantAnalysis(2).fit(X, y)
    assert few.subclass_centers_ != model.subclass_centers_
    assert few.set_params(subclasses__rows_per_class=50).fit(X, y).statistics_ == model.statistics_
    grid = {"subclasses__rows_per_class": [50, 200], "subclasses__n": [1, 2]}
    search = StatisticsSearchCV(MixtureDiscriminantAnalysis(), grid, cv=2).fit(X, y)
    best = MixtureDiscriminantAnalysis().set_params(**search.best_params_).fit(X, y)
    assert search.best_estimator_.subclass_centers_ == best.subclass_centers_


def test_centres_have_no_parameters():
    model = MixtureDiscriminantAnalysis({"a": [[0.0, 1.0, 2.0]]})
    with pytest.raises(ValueError, match=r"has no parameters; set subclasses=Subclasses\(random_state=1\)"):
        model.set_params(subclasses__random_state=1)


def test_centres_are_finite_and_of_as_many_features_as_their_covariance():
    with pytest.raises(ValueError, match=r"class a: centres have shape \(n_subclasses, 3\)"):
        SubclassCenters({"a": [[0.0, 1.0]]}, np.ones(3))
    with pytest.raises(ValueError, match="class a: a centre holds NaN or infinity"):
        SubclassCenters({"a": [[0.0, 1.0, np.inf]]}, np.ones(3))


def test_states_about_other_centres_do_not_merge(rows):
    X, y = rows
    model = MixtureDiscriminantAnalysis(2).fit(X, y)
    with pytest.raises(ValueError, match="give the second the subclass_centers_ of the first"):
        model.merge(MixtureDiscriminantAnalysis(3).fit(X, y))
    plain = ClassStatistics().update(X, y)
    for call in (model.merge, MixtureDiscriminantAnalysis.from_statistics):
        with pytest.raises(ValueError, match="do not keep subclasses apart"):
            call(plain)
    with pytest.raises(TypeError, match="divides or maps the rows.*; got list"):
        accumulate(scan_arrow(pa.table({"x": [1.0], "y": [1]}), "y"), rule=[[1.0]])


def test_what_mixtures_have_not_is_said(rows):
    model = MixtureDiscriminantAnalysis(2).fit(*rows)
    with pytest.raises(ValueError, match="no quadric"):
        model.boundary("a", "b")
    for name in ("coef_", "to_sklearn"):
        assert not hasattr(model, name)
    for name in ("log_likelihood_", "bic_"):
        with pytest.raises(AttributeError, match="mixtures"):
            getattr(model, name)


def test_subclasses_without_a_density_are_an_error_or_skipped(rows):
    X, y = rows
    random = np.random.default_rng(0).normal(size=len(X))
    flat = np.column_stack([X, np.where(y == "c", random, 1.0)])  # constant in most subclasses
    with pytest.raises(np.linalg.LinAlgError, match="constant in it: 3"):
        MixtureDiscriminantAnalysis(2, pooling=None).fit(flat, y)
    with pytest.warns(UserWarning, match="lack a direction, .* and hold [78].% of the rows"):
        model = MixtureDiscriminantAnalysis(2).fit(flat, y)
    assert np.isfinite(model.predict_proba(flat)).all()


def test_predictions_of_datasets_are_those_in_memory(rows, sources, tmp_path):
    X, y = rows
    model = MixtureDiscriminantAnalysis(2).fit(sources[0])
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    predict_dataset(model, sources[0], tmp_path / "out", columns=["label", "probabilities"])
    written = pq.read_table(tmp_path / "out").to_pandas()
    np.testing.assert_array_equal(written.iloc[:, 0], model.predict(frame))
    found = evaluate(model, sources[1])
    np.testing.assert_allclose(found.accuracy, model.score(frame, y))
    given = MixtureDiscriminantAnalysis(model.subclass_centers_).fit(sources[0])
    assert predict_dataset(given, sources[0], tmp_path / "given").n_rows == len(X)
    lazy = model.predict_proba(dd.from_pandas(frame, npartitions=3)).compute()
    np.testing.assert_array_equal(lazy, model.predict_proba(frame))


# ---------------------------------------------------------------------- searches


@pytest.mark.slow
def test_a_search_scores_each_number_of_subclasses_as_models_of_the_folds_do(rows, sources):
    grid, names = {"subclasses": [1, 2, {"a": 3}]}, ["accuracy", "log_likelihood"]
    how = {"cv": 3, "scoring": names, "refit": "accuracy"}
    search = StatisticsSearchCV(MixtureDiscriminantAnalysis(), grid, **how).fit(sources[1])
    assert search.n_reads_ == 3
    X, y = pd.DataFrame(rows[0], columns=["x0", "x1", "x2"]), rows[1]
    blocks = [block for split in sources[1].splits() for block in split.blocks()]
    folds = np.concatenate([FoldRule(3).assign(block)[1] for block in blocks])
    for i, subclasses in enumerate(grid["subclasses"]):
        centers = MixtureDiscriminantAnalysis(subclasses).draw_centers(sources[1])
        for fold in range(3):
            model = MixtureDiscriminantAnalysis(subclasses=centers)
            model.fit(X[folds != fold], y[folds != fold])
            tested, truth = X[folds == fold], y[folds == fold]
            joint = model.predict_log_proba(tested) + model.score_samples(tested)[:, None]
            of_truth = joint[np.arange(len(truth)), np.searchsorted(model.classes_, truth)]
            found = [search.cv_results_[f"split{fold}_test_{name}"][i] for name in names]
            np.testing.assert_allclose(found, [model.score(tested, truth), of_truth.mean()], rtol=1e-9)
    best = MixtureDiscriminantAnalysis(**search.best_params_).fit(sources[1])
    assert search.best_estimator_.statistics_.allclose(best.statistics_)
    assert search.best_estimator_.subclass_centers_ == best.subclass_centers_


@pytest.mark.slow
def test_mixtures_are_compared_with_other_models(rows):
    X, y = rows
    y = np.where(np.random.default_rng(5).random(len(y)) < 0.1, y[::-1], y)
    mixtures = {"subclasses": [1, 2], "covariance_type": ["full", "diag"], "pooling": [None]}
    plain = [QuadraticDiscriminantAnalysis(), GaussianNB()]
    grid = [{"estimator": plain}, {"estimator": [MixtureDiscriminantAnalysis()], **mixtures}]
    search = StatisticsSearchCV(None, grid, scoring="neg_log_loss", calibrate="temperature").fit(X, y)
    assert search.n_reads_ == 3
    assert search.best_params_["subclasses"] == 2
    assert search.best_estimator_.temperature != 1
    table = search.cv_results_
    for params, score in zip(table["params"], table["mean_test_score"], strict=True):
        if params.get("subclasses") == 1:
            same = table["mean_test_score"][0 if params["covariance_type"] == "full" else 1]
            np.testing.assert_allclose(score, same, rtol=1e-12)
    scores = cross_validate(MixtureDiscriminantAnalysis(2), *rows, scoring="accuracy")["test_score"]
    assert scores.min() > 0.7
    assert learning_curve(MixtureDiscriminantAnalysis(2), *rows, scoring="accuracy")[2].shape == (3, 5)


@pytest.mark.slow
@pytest.mark.parametrize("folds", [None, 3])
def test_a_ledger_keeps_subclasses_apart(sources, tmp_path, folds):
    model = MixtureDiscriminantAnalysis(2, exact=True)
    centers = model.draw_centers(sources[1])
    how = {"exact": True, "folds": folds, "rule": centers}
    ledger = StatisticsLedger(tmp_path / "ledger", **how)
    assert [len(ledger.refresh(sources[1]).read) > 0 for _ in range(2)] == [True, False]
    again = StatisticsLedger(tmp_path / "ledger", **how)
    assert again.statistics() == model.fit(sources[1]).statistics_
    if folds:
        parts = again.fold_statistics()
        assert parts.classes.tolist() == ["a", "b", "c"]
        assert parts.total() == model.statistics_
        with pytest.raises(ValueError, match="needs the rows"):
            StatisticsSearchCV(MixtureDiscriminantAnalysis(exact=True), {"pooling": [0.1]}).fit(parts)
    other = StatisticsLedger(tmp_path / "ledger", exact=True, folds=folds)
    for use in (lambda: other.refresh(sources[1]), other.statistics):
        with pytest.raises(ValueError, match="statistics with rule=.*, and here it is rule=None"):
            use()


def test_centres_of_rows_with_fractional_weights_do_not_depend_on_the_order():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 9, (600, 1)).astype(float), np.arange(600) % 2  # each row stands many times
    weights = rng.random(600) + 0.1
    centers = MixtureDiscriminantAnalysis().fit(X, y, sample_weight=weights).subclass_centers_
    for _ in range(10):
        order = rng.permutation(600)
        model = MixtureDiscriminantAnalysis().fit(X[order], y[order], sample_weight=weights[order])
        assert model.subclass_centers_.has_same(centers)


@pytest.mark.parametrize(("before", "after"), [("tied", "full"), ("tied", "diag"), ("diag", "full")])
def test_a_covariance_type_that_the_state_does_not_hold_is_refused_in_words(rows, before, after):
    model = MixtureDiscriminantAnalysis(covariance_type=before).fit(*rows).set_params(covariance_type=after)
    with pytest.raises(ValueError, match="does not hold what|holds each feature by itself"):
        model.predict(rows[0])


@pytest.mark.parametrize(("before", "after"), [("full", "tied"), ("full", "diag")])
def test_a_covariance_type_may_be_changed_to_one_that_the_state_holds(rows, before, after):
    X, y = rows
    model = MixtureDiscriminantAnalysis(covariance_type=before).fit(X, y)
    centers = model.subclass_centers_
    again = MixtureDiscriminantAnalysis(covariance_type=after, subclasses=centers).fit(X, y)
    model.set_params(covariance_type=after)
    np.testing.assert_allclose(model.predict_proba(X), again.predict_proba(X), atol=1e-12)


def test_plain_centres_need_one_read_and_measure_euclidean_distances():
    rng = np.random.default_rng(0)
    centers = {"a": [[0.0, 0.0], [9.0, 0.0]], "b": [[5.0, 5.0]]}
    X, y = rng.normal(size=(300, 2)) * [5, 2] + [4, 1], rng.choice(["a", "b"], 300)
    model = MixtureDiscriminantAnalysis(subclasses=centers).fit(X, y)
    assert model.n_reads_ == 1
    nearest = np.argmin([np.hypot(*(X - c).T) for c in centers["a"]], axis=0)
    for k in (0, 1):
        rows = X[(y == "a") & (nearest == k)]
        np.testing.assert_allclose(model.statistics_.means[k], rows.mean(axis=0), rtol=1e-12)
    again = from_bytes(clone(model).fit(X, y).to_bytes())
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for wrong in ([1.0], {"a": [1.0, 2.0]}):
        with pytest.raises(ValueError, match="subclasses|class a: centres have shape"):
            MixtureDiscriminantAnalysis(subclasses=wrong).fit(X, y)
