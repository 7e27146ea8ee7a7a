"""Naive Bayes and the conditional Gaussian model of tables, row by row and against published values."""

from itertools import pairwise, product

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax, logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.naive_bayes import CategoricalNB
from sklearn.naive_bayes import GaussianNB as Peer

from streamgda import (
    Categorical,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    cross_validate,
    evaluate,
    load,
    predict_dataset,
    scan_arrow,
)

WEATHER = """sunny 85 85 no no
sunny 80 90 yes no
overcast 83 86 no yes
rainy 70 96 no yes
rainy 68 80 no yes
rainy 65 70 yes no
overcast 64 65 yes yes
sunny 72 95 no no
sunny 69 70 no yes
rainy 75 80 no yes
sunny 75 70 yes yes
overcast 72 90 yes yes
overcast 81 75 no yes
rainy 71 91 yes no"""
COLUMNS = ["outlook", "temperature", "humidity", "windy"]


def weather(columns=COLUMNS):
    table = pd.DataFrame([line.split() for line in WEATHER.split("\n")], columns=[*COLUMNS, "play"])
    return table.astype({"temperature": float, "humidity": float})[columns], table["play"]


@pytest.mark.parametrize(
    ("alpha", "left_out", "expected"),
    [
        (0.0, [], 0.193547254),
        (0.5, [], 0.236321067),
        (1.0, [], 0.270671669),
        (1.0, ["outlook"], 0.426029281),
        (1.0, ["windy"], 0.368366173),
    ],
)
def test_naive_bayes_of_the_weather(alpha, left_out, expected):
    X, y = weather()
    model = GaussianNB(var_smoothing=0, categories=Categorical(alpha=alpha)).fit(X, y)
    row = pd.DataFrame([["sunny", 66.0, 90.0, "yes"]], columns=COLUMNS).assign(**dict.fromkeys(left_out))
    if left_out:  # no learnt row lacks it
        with pytest.warns(UserWarning, match="no learnt row has"):
            found = model.predict_proba(row)
    else:
        found = model.predict_proba(row)
    assert found[0, 1] == pytest.approx(expected, abs=5e-10)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 240
    city = rng.choice(["Oslo", "Paris", "Rome", None], n, p=[0.5, 0.2, 0.2, 0.1])
    grade = rng.integers(1, 4, n)
    y = (rng.random(n) < 0.3 + 0.3 * (city == "Rome")).astype(int) + (rng.random(n) < 0.2)
    age = rng.normal(size=n) * (1 + y) + (city == "Rome") * (1 + y) + grade
    income = rng.normal(size=n) + 0.5 * age + (city == "Oslo") * y
    return pd.DataFrame({"age": age, "income": income, "city": city, "grade": grade}), y


NAMED = ["city", "grade"]
CHOSEN = Categorical(NAMED)
CONDITIONAL = Categorical(NAMED, "conditional")
VALUES = {"city": ["Oslo", "Paris", "Rome", None], "grade": [1, 2, 3]}


def dummies(X, values=VALUES):
    """The dummies of rows, by comparison."""
    is_value = [
        X[name].isna() if value is None else X[name] == value for name in values for value in values[name]
    ]
    return np.array(is_value, dtype=float).T


def conditional(X, y, rows, *, pooled, values=VALUES, alpha=1.0, ridge=1.0):
    """Ln p(x, k) by the conditional Gaussian model, row by row; a column of zeros is summed over."""
    x, z, classes = X[["age", "income"]].to_numpy(), dummies(X, values), np.unique(y)
    z = np.concatenate([z, np.zeros((len(z), sum(map(len, VALUES.values())) - z.shape[1]))], axis=1)
    centred_x, centred_z = x.copy(), z.copy()
    for k in classes:
        centred_x[y == k] -= x[y == k].mean(axis=0)
        centred_z[y == k] -= z[y == k].mean(axis=0)
    scores = np.empty((len(rows), len(classes)))
    for k in classes:
        own = np.ones(len(y), bool) if pooled else y == k
        B = np.linalg.solve(
            centred_z[own].T @ centred_z[own] + ridge * np.eye(z.shape[1]), centred_z[own].T @ centred_x[own]
        )
        R = (centred_x[own].T @ centred_x[own] - centred_x[own].T @ centred_z[own] @ B) / own.sum()
        of_k = y == k
        starts = np.cumsum([0, *map(len, values.values())])
        log_p = [np.log((z[of_k, a:b].sum(axis=0) + alpha) / (z[of_k, a:b].sum() + alpha * (b - a)))
                 for a, b in pairwise(starts)]  # fmt: skip
        for i, (number, dummy) in enumerate(
            zip(rows[["age", "income"]].to_numpy(), dummies(rows, values), strict=True)
        ):
            choices = [
                [dummy[a:b].argmax()] if dummy[a:b].any() else range(b - a) for a, b in pairwise(starts)
            ]
            terms = []
            for chosen in product(*choices):
                row = np.zeros(z.shape[1])
                row[[a + c for a, c in zip(starts[:-1], chosen, strict=True)]] = 1
                mean = x[of_k].mean(axis=0) + (row - z[of_k].mean(axis=0)) @ B
                known = sum(table[c] for table, c in zip(log_p, chosen, strict=True))
                terms.append(known + multivariate_normal(mean, R).logpdf(number))
            scores[i, k] = logsumexp(terms) + np.log(of_k.mean())
    return scores


MODELS = [
    (QuadraticDiscriminantAnalysis(categories=CHOSEN), False),
    (LinearDiscriminantAnalysis(categories=CONDITIONAL), True),
]


@pytest.mark.slow_cases("model0")
@pytest.mark.parametrize(("model", "pooled"), MODELS)
def test_the_conditional_model_row_by_row(model, pooled, table):
    X, y = table
    model = model.set_params(categories__alpha=0.5, categories__ridge=2.0).fit(X, y)
    rows = X[:20]
    expected = conditional(X, y, rows, pooled=pooled, alpha=0.5, ridge=2.0)
    np.testing.assert_allclose(model.predict_log_proba(rows), log_softmax(expected, axis=1), rtol=1e-9)
    np.testing.assert_allclose(model.score_samples(rows), logsumexp(expected, axis=1), rtol=1e-9)
    everything = conditional(X, y, X, pooled=pooled, alpha=0.5, ridge=2.0)
    assert model.log_likelihood_ == pytest.approx(everything[np.arange(len(y)), y].sum(), rel=1e-9)


def test_covariances_are_pooled_with_the_ridge_of_their_share_of_the_rows(table):
    """The rows of a class are those of the other twice, and shifted: all have one covariance, as in LDA."""
    X = pd.concat([table[0]] * 3, ignore_index=True)
    y = np.arange(len(X)) // len(table[0]) > 0
    X["age"] += y
    pooled = QuadraticDiscriminantAnalysis(pooling=0.3, categories=Categorical(NAMED, ridge=50.0)).fit(X, y)
    lda = LinearDiscriminantAnalysis(categories=Categorical(NAMED, "conditional", ridge=50.0)).fit(X, y)
    np.testing.assert_allclose(pooled.predict_log_proba(X), lda.predict_log_proba(X), rtol=1e-9)


@pytest.mark.parametrize(("model", "pooled"), MODELS)
def test_an_unseen_category_is_summed_over(model, pooled, table):
    X, y = table
    model = model.set_params(categories__alpha=1.0, categories__ridge=1.0).fit(X, y)
    rows = X[:5].assign(city=["Rome", "Bern", "Bern", None, "Bern"], grade=[1, 1, 9, 2, 3])
    with pytest.warns(UserWarning, match="'city' in 3 rows, 'grade' in 1 row"):
        found = model.predict_log_proba(rows)
    expected = conditional(X, y, rows, pooled=pooled)
    np.testing.assert_allclose(found, log_softmax(expected, axis=1), rtol=1e-9)


@pytest.mark.slow_cases("QDA-256", "LDA-1")
@pytest.mark.parametrize("apart", [1, 2**8])
@pytest.mark.parametrize("model", [model for model, _ in MODELS], ids=["QDA", "LDA"])
def test_numbers_far_from_zero_keep_their_digits(model, apart):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    numbers = np.round(rng.normal(size=(300, 2)) * 2**12) / 2**22 + apart * np.stack([y, y == 1], 1) / 2**10
    city = rng.choice(["Oslo", "Paris", "Rome"], 300)

    def frame(shift):
        return pd.DataFrame(numbers + shift, columns=["a", "b"]).assign(city=city)  # exact

    near, far = (clone(model).set_params(categories="auto").fit(frame(shift), y) for shift in (0.0, 2.0**30))
    for name in ("predict_log_proba", "score_samples", "mahalanobis", "p_values"):
        expected, found = getattr(near, name)(frame(0.0)), getattr(far, name)(frame(2.0**30))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=name)
    assert far.log_likelihood_ == pytest.approx(near.log_likelihood_, rel=1e-12)
    drawn, elsewhere = (one.sample(50, random_state=0)[0][:, :2] for one in (near, far))
    np.testing.assert_allclose(elsewhere - 2.0**30, drawn, atol=2.0**-22)
    holes, shifted = frame(0.0).assign(b=np.nan), frame(2.0**30).assign(b=np.nan)
    np.testing.assert_allclose(far.impute(shifted)[:, 1] - 2.0**30, near.impute(holes)[:, 1], atol=2.0**-20)
    rows = frame(2.0**30).assign(id=range(300))  # which DuckDB finds by this name
    answer = duckdb.sql(f"{far.to_sql('rows', keep=['id'])} ORDER BY id").df()
    assert len(rows) == 300
    np.testing.assert_allclose(answer.iloc[:, 2:], near.predict_proba(frame(0.0)), atol=1e-9)


def test_naive_bayes_is_the_product_of_two_of_scikit_learn(table):
    X, y = table
    model = GaussianNB(categories=Categorical(NAMED, alpha=0.7)).fit(X, y)
    codes = np.array([dummies(X)[:, :4].argmax(axis=1), X["grade"] - 1]).T
    of_categories = CategoricalNB(alpha=0.7).fit(codes, y)
    of_numbers = Peer().fit(X[["age", "income"]].to_numpy(), y)
    joint = of_categories.predict_joint_log_proba(codes)
    joint += of_numbers.predict_joint_log_proba(X[["age", "income"]].to_numpy()) - np.log(model.priors_)
    np.testing.assert_allclose(model.predict_joint_log_proba(X), joint, rtol=1e-10)
    assert model.log_likelihood_ == pytest.approx(joint[np.arange(len(y)), y].sum())
    for name, expected in zip(NAMED, of_categories.feature_log_prob_, strict=True):
        np.testing.assert_allclose(model.category_log_prob_[name], expected)
    np.testing.assert_allclose(model.theta_, of_numbers.theta_)
    np.testing.assert_allclose(model.var_, of_numbers.var_)
    assert model.epsilon_ == pytest.approx(of_numbers.epsilon_)


def test_a_missing_category_may_be_none(table):
    X, y = table
    model = GaussianNB(categories=CHOSEN).fit(X, y).set_params(missing="marginal")
    known = X["city"].notna().to_numpy()
    codes = dummies(X)[:, :3].argmax(axis=1)[:, None]
    of_city = CategoricalNB().fit(codes[known], y[known])
    np.testing.assert_allclose(model.category_log_prob_["city"][:, :3], of_city.feature_log_prob_[0])
    assert np.isnan(model.category_log_prob_["city"][:, 3]).all()
    without = GaussianNB(categories=Categorical(["grade"])).fit(X[["age", "income", "grade"]], y)
    np.testing.assert_allclose(model.predict_proba(X[~known]), without.predict_proba(X[~known]), rtol=1e-9)


def test_naive_bayes_learns_each_column_from_the_rows_that_have_it(table):
    X, y = table
    X = X.mask(np.random.default_rng(3).random(X.shape) < 0.2).astype({"grade": object})
    model = GaussianNB(missing="marginal", var_smoothing=0, categories=CHOSEN).fit(X, y)
    joint = np.log(np.bincount(y) / len(y)) * np.ones((len(y), 1))
    for name in ("age", "income"):
        for k, values in X[name].astype(float).groupby(y):
            joint[:, k] += np.nan_to_num(
                norm.logpdf(X[name].astype(float), values.mean(), values.std(ddof=0))
            )
    for name in NAMED:
        for k, values in X[name].groupby(y):
            counts = values.value_counts().reindex(X[name].dropna().unique(), fill_value=0) + 1
            joint[:, k] += X[name].map(np.log(counts / counts.sum())).fillna(0).astype(float)
    np.testing.assert_allclose(model.predict_joint_log_proba(X), joint, rtol=1e-9)
    assert model.n_iter_ == 0
    batches = GaussianNB(missing="marginal", var_smoothing=0, categories=CHOSEN)
    for some in np.array_split(np.argsort(X["city"].fillna("~").to_numpy()), 4):
        batches.partial_fit(X.iloc[some], y[some])
    np.testing.assert_allclose(batches.predict_joint_log_proba(X), joint, rtol=1e-9)


@pytest.mark.parametrize("model", [GaussianNB(), *(model for model, _ in MODELS)])
def test_rare_categories_are_one(model, table):
    X, y = table
    counts = X["city"].value_counts(dropna=False)
    kept = counts.index[:2]
    fewer = X.assign(city=[city if city in kept else "infrequent" for city in X["city"]])
    found = (
        model.set_params(categories__max_categories=3, categories__columns=NAMED).fit(X, y).predict_proba(X)
    )
    expected = model.set_params(categories__max_categories=255).fit(fewer, y).predict_proba(fewer)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    model.sample(5, random_state=0)


@pytest.mark.slow_cases("exact=True, reg", "pooling='bayes', shrinkage")
@pytest.mark.parametrize(
    "model",
    [
        GaussianNB(categories=CHOSEN),
        GaussianNB(exact=True, pooling="bayes", categories=CHOSEN),
        QuadraticDiscriminantAnalysis(categories=CHOSEN),
        QuadraticDiscriminantAnalysis(pooling="bayes", shrinkage=0.1, categories=CHOSEN),
        QuadraticDiscriminantAnalysis(exact=True, reg_param=0.1, categories=CHOSEN),
        LinearDiscriminantAnalysis(categories=CONDITIONAL, shrinkage="oas"),
    ],
    ids=repr,
)
def test_all_that_a_model_does(model, table, tmp_path):
    X, y = table
    model.fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    learner = clone(model)
    for part in (slice(0, 50), slice(50, 240)):
        learner.partial_fit(X[part], y[part])
        learner.predict(X[:3]) if part.start else None
    np.testing.assert_allclose(learner.predict_proba(X), proba, rtol=1e-7, atol=1e-10)
    model.save(tmp_path / "model.parquet")
    np.testing.assert_array_equal(load(tmp_path / "model.parquet").predict_proba(X), proba)
    assert np.isfinite([model.n_parameters_, model.log_likelihood_, model.bic_]).all()
    assert (model.p_values(X) >= 0).all()
    rows, labels = model.sample(4_000, random_state=0)
    assert rows.shape == (4_000, 9)
    assert (rows[:, 2:6].sum(axis=1) == 1).all()
    for k in range(3):
        own = rows[labels == k]
        spread = rows[labels == k].std(axis=0) / np.sqrt(len(own))
        assert (abs(own.mean(axis=0) - model.means_[k]) < 5 * spread + 0.03).all()
    lacking = X[:6].assign(age=np.nan)
    filled = model.impute(lacking)
    np.testing.assert_array_equal(filled[:, 1:], model.impute(X[:6])[:, 1:])
    assert np.isfinite(filled).all()
    np.testing.assert_allclose(model.set_params(missing="marginal").predict_proba(lacking).sum(axis=1), 1)
    with pytest.raises(ValueError, match="scikit-learn has no model of numbers together with .city"):
        model.to_sklearn()
    with pytest.raises(ValueError, match="no quadric"):
        model.boundary(0, 1)


def test_imputed_numbers_are_conditional_means(table):
    X, y = table
    model = LinearDiscriminantAnalysis(categories=CONDITIONAL).fit(X, y)
    filled = model.impute(X[:1].assign(age=np.nan))[0, 0]
    ages = np.linspace(-40, 40, 8001)
    rows = pd.concat([X[:1]] * len(ages)).assign(age=ages)
    density = np.exp(model.score_samples(rows))
    assert filled == pytest.approx(density @ ages / density.sum(), rel=1e-6)


@pytest.mark.parametrize("model", [GaussianNB(), *(model for model, _ in MODELS)])
def test_datasets_are_predicted_and_folds_tried(model, table, tmp_path):
    X, y = table
    table = X.assign(kind=y)
    source = scan_arrow(table, "kind", categories=Categorical(["city", "grade"]))
    model.set_params(categories__columns=()).fit(source)
    expected = clone(model).set_params(categories__columns=NAMED).fit(X, y).predict_proba(X)
    assert evaluate(model, source).accuracy == (expected.argmax(axis=1) == y).mean()
    table.to_parquet(tmp_path / "table.parquet")
    predict_dataset(model, tmp_path / "table.parquet", tmp_path / "out")
    written = pd.read_parquet(tmp_path / "out")
    np.testing.assert_allclose(written[[f"probability_{k}" for k in range(3)]], expected, rtol=1e-9)
    assert np.isfinite(cross_validate(model, source, cv=3)["test_score"]).all()


def test_what_a_model_does_not_have(table):
    X, y = table
    model = LinearDiscriminantAnalysis(categories=CONDITIONAL).fit(X, y)
    for name in ("coef_", "intercept_", "xbar_", "scalings_"):
        with pytest.raises(AttributeError, match="numbers given 'city', 'grade'"):
            getattr(model, name)
    with pytest.raises(AttributeError, match="numbers given 'city', 'grade'"):
        model.transform(X)
    with pytest.raises(ValueError, match="all columns have categories"):
        GaussianNB(categories=CHOSEN).fit(X[["city", "grade"]], y)
    for params in ({"shrinkage": "auto"}, {"solver": "eigen", "covariance_estimator": LedoitWolf()}):
        with pytest.raises(ValueError, match="more of the numbers given the categories"):
            QuadraticDiscriminantAnalysis(**params, categories=CHOSEN).fit(X, y)
    with pytest.raises(ValueError, match="Student t"):
        QuadraticDiscriminantAnalysis(predictive="student", categories=CHOSEN).fit(X, y)
    assert GaussianNB(predictive="student", categories=CHOSEN).fit(X, y).predict(X[:2]).shape == (2,)
    with pytest.raises(AttributeError, match="no probabilities"):
        _ = LinearDiscriminantAnalysis(categories=CHOSEN).fit(X, y).category_log_prob_


@pytest.mark.parametrize("solver", ["svd", "lsqr", "eigen"])
def test_dummies_are_a_pipeline_of_scikit_learn(table, solver):
    X, y = table
    frame = X.astype({"city": "str"})
    model = LinearDiscriminantAnalysis(solver, categories=CHOSEN).fit(frame, y)
    peer = model.to_sklearn()
    np.testing.assert_allclose(peer.predict_proba(frame), model.predict_proba(frame), rtol=1e-7)
    np.testing.assert_array_equal(peer.predict(frame), model.predict(frame))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"columns": "city"}, r"'columns' parameter of Categorical must be a str among {'auto'} or an array"),
        ({"model": "naive"}, r"'model' parameter .* among {'dummies', 'conditional'} or None. Got 'naive'"),
        ({"alpha": -1}, r"'alpha' parameter of Categorical must be a float in the range \[0.0, inf\)"),
        ({"ridge": 0}, "'ridge' parameter"),
        ({"max_categories": 1}, "'max_categories' parameter"),
    ],
)
def test_parameters_of_categories_are_checked(params, message):
    with pytest.raises(ValueError, match=message):
        Categorical(**params)
    with pytest.raises(ValueError, match=message):
        GaussianNB().set_params(**{f"categories__{name}": value for name, value in params.items()})


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (GaussianNB, "dummies"),
        (QuadraticDiscriminantAnalysis, "dummies"),
        (GaussianDiscriminantAnalysis, "conditional"),
        (MixtureDiscriminantAnalysis, "conditional"),
    ],
)
def test_a_model_that_an_estimator_does_not_have_is_an_error_before_rows_are_read(kind, model):
    estimator = kind(categories=Categorical(model=model))
    if kind is MixtureDiscriminantAnalysis:
        estimator.set_params(covariance_type="tied")
    with pytest.raises(ValueError, match=rf"{kind.__name__} does not take Categorical\(model='{model}'\)"):
        estimator.fit([[0.0], [1.0]], [0, 1])


def test_a_change_of_categories_needs_no_read_and_changes_no_other_model(table):
    X, y = table
    model = GaussianNB(categories=CHOSEN).fit(X, y)
    twin, before = clone(model).fit(X, y), model.predict_proba(X)
    assert twin.categories is model.categories
    model.set_params(categories__alpha=20.0)
    expected = GaussianNB(categories=Categorical(NAMED, alpha=20.0)).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(twin.predict_proba(X), before)
    assert abs(expected - before).max() > 0.01


USUAL = {"categorical_features": "from_dtype", "alpha": 1.0, "max_categories": 255}


@pytest.mark.parametrize(
    ("kind", "saved", "expected"),
    [
        (GaussianNB, {}, "auto"),
        (GaussianNB, USUAL, "auto"),
        (GaussianNB, {**USUAL, "categorical_features": None}, None),
        (GaussianNB, {"categorical_features": None, "alpha": 2.0}, Categorical((), alpha=2.0)),
        (GaussianNB, {"categorical_features": ["city"], "alpha": 2.0}, Categorical(["city"], alpha=2.0)),
        (
            LinearDiscriminantAnalysis,
            {**USUAL, "categorical_model": "dummies", "categorical_ridge": 1.0},
            "auto",
        ),
        (
            LinearDiscriminantAnalysis,
            {"categorical_features": ["a"], "categorical_model": "conditional", "categorical_ridge": 3.0},
            Categorical(["a"], "conditional", ridge=3.0),
        ),
    ],
)
def test_parameters_of_models_saved_by_older_versions(kind, saved, expected):
    params = saved if kind is GaussianNB else {"solver": "svd", **saved}
    assert kind(**kind._upgraded(params)).categories == expected
