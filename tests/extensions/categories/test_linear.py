"""Linear discriminant analysis of tables with categories, against scikit-learn's on one-hot columns."""

import re
from contextlib import nullcontext

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pytest
from pyarrow.parquet import write_to_dataset
from scipy.special import log_softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as Peer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from streamgda import (
    Categorical,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    HashedKFold,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsSearchCV,
    accumulate,
    cross_validate,
    drift,
    evaluate,
    load,
    predict_dataset,
    scan,
    scan_arrow,
    scan_dask,
    scan_parquet,
)

COLUMNS = ["city", "grade"]
CHOSEN = Categorical(COLUMNS)


@pytest.fixture(scope="module")
def customers():
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.normal(size=400).round(3),
            "city": pd.Series(rng.choice(["Oslo", "Paris", "Rome", None], 400), dtype="str"),
            "member": rng.random(400) < 0.5,
            "grade": rng.integers(1, 4, 400),
        }
    )


@pytest.fixture(scope="module")
def kinds(customers):
    noise = np.random.default_rng(2).normal(size=len(customers))
    return np.where(customers["age"] + (customers["city"] == "Rome") + noise > 0.5, "buys", "leaves")


@pytest.fixture(scope="module")
def peer(customers, kinds):
    one_hot = make_column_transformer((OneHotEncoder(), COLUMNS), remainder="passthrough")
    return make_pipeline(one_hot, Peer()).fit(customers, kinds)


@pytest.fixture(scope="module")
def source(customers, kinds, tmp_path_factory):
    folder = tmp_path_factory.mktemp("customers")
    table = customers.assign(kind=kinds)
    table[:150].to_parquet(folder / "a.parquet", row_group_size=60)
    table[150:].astype({"city": "category"}).to_parquet(folder / "b.parquet")
    return scan_parquet(folder, "kind", categories=CHOSEN)


@pytest.fixture(scope="module")
def model(customers, kinds):
    return LinearDiscriminantAnalysis(categories=CHOSEN).fit(customers, kinds)


def test_fit_and_predict_frames(model, peer, customers):
    expected = peer.predict_proba(customers)
    assert model.categories_ == {"city": ["Oslo", "Paris", "Rome", None], "grade": [1, 2, 3]}
    assert model.feature_names_in_.tolist() == ["age", "member", "city", "grade"]
    assert model.n_features_in_ == 4
    shuffled = customers[["grade", "city", "member", "age"]]
    frames = [customers, shuffled, pa.Table.from_pandas(customers)]
    for rows in frames:
        np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(customers[7:8]), expected[7:8], rtol=1e-9)


def test_unseen_categories_count_as_none_with_a_warning(model, customers):
    rows = customers[:3].assign(city=["Bern", "Rome", "Bern"])
    with pytest.warns(
        UserWarning,
        match="categories that no learnt row has, missing ones too, count as none.*'city' in 2 rows",
    ):
        found = model.predict_proba(rows)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1], model.predict_proba(customers[:3].assign(city="Rome"))[1])


@pytest.mark.parametrize(("learnt_as", "scored_as"), [(int, str), (str, int)])
def test_numbers_and_their_text_are_one_category(customers, kinds, learnt_as, scored_as, tmp_path):
    """As in CSV, where one other text in a column makes all its numbers text."""
    chosen, rows = Categorical(["grade"]), customers[["age", "grade"]]
    written = {int: rows.assign(kind=kinds), str: rows.astype({"grade": str}).assign(kind=kinds)}
    other = written[str][:1].assign(grade="x")
    written[int].to_csv(tmp_path / "int.csv", index=False)
    pd.concat([written[str], other]).to_csv(tmp_path / "str.csv", index=False)
    sources = {kind: scan(tmp_path / f"{kind.__name__}.csv", "kind", categories=chosen) for kind in written}
    model = LinearDiscriminantAnalysis(shrinkage=0.1).fit(sources[learnt_as])
    assert {type(value) for value in model.categories_["grade"]} == {learnt_as}
    with nullcontext() if scored_as is int else pytest.warns(match="'grade' in 1 row"):
        predict_dataset(model, sources[scored_as], tmp_path / "scored", columns=["label"])
    scored = pd.read_parquet(tmp_path / "scored")["predicted_label"][: len(rows)].tolist()
    for frame in written.values():
        assert model.predict(frame[["age", "grade"]]).tolist() == scored


def test_datasets_are_scored_by_name_and_value(model, source, customers, kinds, tmp_path):
    in_memory = evaluate(model, customers, kinds)
    of_source = evaluate(model, source)
    np.testing.assert_array_equal(of_source.confusion_matrix, in_memory.confusion_matrix)
    assert of_source.log_loss == pytest.approx(in_memory.log_loss, rel=1e-12)
    frame = dd.from_pandas(customers.assign(kind=kinds), npartitions=3)
    assert evaluate(model, frame, "kind").log_loss == pytest.approx(in_memory.log_loss, rel=1e-12)
    expected = model.predict(customers)
    predict_dataset(model, source, tmp_path / "scored")
    assert (pd.read_parquet(tmp_path / "scored")["predicted_label"].to_numpy(object) == expected).all()
    assert (model.predict(frame[list(customers)]).compute().to_numpy(object) == expected).all()
    of_dask = LinearDiscriminantAnalysis().fit(scan_dask(frame, "kind", categories=CHOSEN))
    np.testing.assert_allclose(of_dask.predict_proba(customers), model.predict_proba(customers), rtol=1e-9)


def test_a_source_with_other_categories_than_the_model_says_what_to_scan(model, customers, kinds):
    table = pa.Table.from_pandas(customers.assign(kind=kinds), preserve_index=False)
    with pytest.raises(ValueError, match=r"differ in how they read 'grade'; scan it with"):
        evaluate(model, scan_arrow(table, "kind", categories="auto"))


@pytest.mark.parametrize("scoring", ["accuracy", "log_likelihood"])
def test_a_category_of_one_fold_alone(customers, kinds, scoring):
    city = customers["city"].where(customers.index != 7, "Bern")
    table = pa.Table.from_pandas(customers.assign(city=city, kind=kinds), preserve_index=False)
    source = scan_arrow(table, "kind", categories=CHOSEN)
    search = StatisticsSearchCV(LinearDiscriminantAnalysis(), {"shrinkage": [0.1, 0.3]}, scoring=scoring)
    assert np.isfinite(search.fit(source).best_score_)
    assert search.best_estimator_.categories_["city"] == ["Bern", "Oslo", "Paris", "Rome", None]


def test_rows_without_names_and_missing_columns_are_refused(model, customers):
    with pytest.raises(
        ValueError, match=r"learnt more than numbers, so rows need the names of their columns, 'age'"
    ):
        model.predict(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="the frame: there is no column 'city'"):
        model.predict(customers.drop(columns="city"))
    with pytest.raises(ValueError, match="row 1: feature 'age' is NaN or null"):
        model.predict(customers.assign(age=[0.0, np.nan] * 200))
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(customers[:0])


@pytest.mark.parametrize(
    "other", [GaussianDiscriminantAnalysis(covariance_model="VVV"), MixtureDiscriminantAnalysis(2)]
)
def test_models_that_take_no_categories_say_so(other, source):
    with pytest.raises(ValueError, match=r"takes no categories.* set covariance_(type='tied'|model='EEI')"):
        other.fit(source)


def test_errors_of_frames_have_the_remedies_of_frames(customers, kinds):
    mixed = customers.assign(note=pd.Series([1, "a"] * 200, dtype=object))
    array, grade = customers[["age", "grade"]].to_numpy(), Categorical(["grade"])
    cannot = r"'city' \(.*\) cannot be features; leave them out, or learn text as .*, or parse dates"
    for rows, chosen, message in (
        (customers, grade, cannot),
        (array, grade, "names columns, and the rows are an array"),
        (mixed, "auto", "the frame: Conversion failed for column note .*holds values of one type"),
    ):
        with pytest.raises(ValueError, match=message):
            LinearDiscriminantAnalysis(categories=chosen).fit(rows, kinds)


def test_transform_of_incomplete_rows_says_how_to_complete_a_frame(customers, kinds):
    holes = customers.assign(age=customers["age"].mask(customers.index == 3))
    model = LinearDiscriminantAnalysis(missing="marginal").fit(holes, kinds)
    with pytest.raises(
        ValueError, match=r"row 3: .*the numbers stand first among the columns of model.impute"
    ):
        model.transform(holes)
    whole = holes.assign(age=model.impute(holes)[:, 0])
    assert np.isfinite(model.transform(whole)).all()


def test_a_class_that_incomplete_rows_do_not_determine_is_named_beside_categories():
    rows = pd.DataFrame({"a": [1.0, 3, 4, 2, 5, 9], "b": [2.0, 5, 1, None, None, 7], "c": list("uvuvuv")})
    with pytest.raises(np.linalg.LinAlgError, match="class 1: too few rows have both 'a' and 'b'"):
        QuadraticDiscriminantAnalysis(missing="marginal").fit(rows, [0, 0, 0, 1, 1, 1])


def test_columns_whose_labels_are_numbers(customers, kinds):
    numbered = customers.set_axis(range(4), axis=1)
    model = LinearDiscriminantAnalysis().fit(numbered, kinds)
    assert model.categories_ == {"1": ["Oslo", "Paris", "Rome", None]}
    named = LinearDiscriminantAnalysis().fit(customers, kinds)
    np.testing.assert_array_equal(model.predict_proba(numbered), named.predict_proba(customers))
    with pytest.raises(ValueError, match="columns 1 hold text"):
        LinearDiscriminantAnalysis(categories=None).fit(numbered, kinds)


def test_a_warning_of_rank_does_not_blame_the_dummies(customers, kinds):
    X = customers.assign(twice=2 * customers["age"], one=1.0)
    with pytest.warns(
        UserWarning, match=r"constant \('one'\) or collinear \('age', 'twice'\)\. The model works"
    ):
        LinearDiscriminantAnalysis(categories=CHOSEN).fit(X, kinds).predict(X)
    with pytest.raises(
        np.linalg.LinAlgError, match=r"collinear \('city=Oslo', .* 'grade=3'\)\. Leave them out"
    ):
        model = GaussianDiscriminantAnalysis(covariance_model="EEE", categories=CHOSEN)
        model.fit(customers, kinds)


def test_a_source_that_lacks_a_category_says_how_to_scan_it(model, customers, kinds, tmp_path):
    table = pa.Table.from_pandas(customers.assign(kind=kinds).dropna(), preserve_index=False)
    write_to_dataset(table, tmp_path, partition_cols=["city"])
    with pytest.raises(
        ValueError, match=r"feature 'city' .*and with categories=Categorical\(columns=\['city', 'grade'\]\)"
    ):
        evaluate(model, scan_parquet(tmp_path, "kind"))
    names, categorical = list(model.feature_names_in_), list(model.categories_)
    scanned = scan_parquet(tmp_path, "kind", features=names, categories=Categorical(categorical))
    assert evaluate(model, scanned).accuracy == model.score(
        customers.dropna(), kinds[customers.notna().all(axis=1)]
    )


@pytest.fixture(scope="module")
def bimodal():
    rng = np.random.default_rng(0)
    y, mode = rng.integers(0, 2, 1_200), rng.integers(0, 2, 1_200)
    table = pd.DataFrame({"a": rng.normal(size=1_200) + 4 * mode * (2 * y - 1)})
    table["b"] = rng.normal(size=1_200) + 3 * mode
    return table.assign(city=np.where(rng.random(1_200) < 0.2 + 0.5 * y, "Oslo", "Rome")), y


def test_subclasses_of_a_table_are_those_of_its_numbers(bimodal, tmp_path):
    X, y = bimodal
    model = MixtureDiscriminantAnalysis(2, covariance_type="tied").fit(X, y)
    centers = model.subclass_centers_
    precision, numbers = np.linalg.inv(centers.covariance), X[["a", "b"]].to_numpy()
    gaps = [numbers - own for k in (0, 1) for own in centers[k]]
    distances = np.transpose([((gap @ precision) * gap).sum(axis=1) for gap in gaps])
    distances[np.arange(4) // 2 != y[:, None]] = np.inf
    label = distances.argmin(axis=1)
    dummies = np.column_stack([numbers, X["city"] == "Oslo", X["city"] == "Rome"]).astype(float)
    peer = Peer(priors=np.bincount(label) / len(y)).fit(dummies, label)
    expected = peer.predict_proba(dummies).reshape(-1, 2, 2).sum(axis=2)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    for i, some in enumerate(np.array_split(np.argsort(X["city"].to_numpy(), kind="stable"), 3)):
        X.assign(kind=y).iloc[some].to_parquet(tmp_path / f"{i}.parquet")
    out_of_core = MixtureDiscriminantAnalysis(2, covariance_type="tied").fit(scan_parquet(tmp_path, "kind"))
    np.testing.assert_allclose(out_of_core.predict_proba(X), expected, rtol=1e-9)
    out_of_core.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), out_of_core.predict(X))
    with pytest.raises(ValueError, match="no column is of num"):
        MixtureDiscriminantAnalysis(2, covariance_type="tied").fit(X[["city"]], y)


def test_models_of_one_covariance_take_dummies(bimodal):
    X, y = bimodal
    dummies = X[["a", "b"]].assign(Oslo=X["city"] == "Oslo", Rome=X["city"] == "Rome").astype(float)
    for name in "EII", "EEI":
        model = GaussianDiscriminantAnalysis(covariance_model=name).fit(X, y)
        variances = dummies.groupby(y).transform(lambda own: (own - own.mean()) ** 2).mean().to_numpy()
        variances = np.full(4, variances.mean()) if name == "EII" else variances
        joint = [
            norm.logpdf(dummies, own.mean(), np.sqrt(variances)).sum(axis=1) + np.log(len(own) / len(y))
            for _, own in dummies.groupby(y)
        ]
        expected = np.exp(log_softmax(np.transpose(joint), axis=1))
        np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    best = GaussianDiscriminantAnalysis().fit(X, y)
    assert set(best.bic_) == {"EII", "EEI"}
    assert "collinear" in best.failures_["EEE"]


def test_an_identifier_is_refused_by_name(customers, kinds):
    rows = customers.assign(name=[f"customer {i}" for i in range(400)])
    with pytest.raises(
        ValueError,
        match=r"'name' has 400 categories in 400 rows: it identifies rows. Leave it out, of a source with",
    ):
        LinearDiscriminantAnalysis(categories="auto").fit(rows, kinds)


@pytest.mark.parametrize("times", [1, 6], ids=["after the pass", "in the pass"])
def test_all_identifiers_are_named_with_features_without_them_and_without_constants(customers, kinds, times):
    rows = pd.concat([customers] * times, ignore_index=True)[["age", "city"]]
    names = [f"customer {i}" for i in range(len(rows))]
    rows = rows.assign(name=names, version=0.1, key=names[::-1], plan="basic", user_id=range(len(rows)))
    message = r"'name' has .*'key' has .*them out.*exclude=\['name', 'key'\].*features=\['age', 'city'\]"
    with pytest.raises(ValueError, match=message):
        LinearDiscriminantAnalysis(categories="auto").fit(rows, np.tile(kinds, times))


DAYS = [f"{day:02d}/0{month}/2021" for month in (1, 2) for day in range(1, 29)]
AMOUNTS = [n / 8 for n in range(56)]


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        (DAYS, DAYS),
        ([f"{day[3:5]}/{day[:2]}/21" for day in DAYS], DAYS),
        ([day.replace("/", ".") + " 00:00" for day in DAYS], DAYS),
        ([f"{n}".replace(".", ",") for n in AMOUNTS], AMOUNTS),
        (["?", *map(str, AMOUNTS[1:])], [None, *AMOUNTS[1:]]),
        (["?", *map(str, range(1, 56))], [None, *range(1, 56)]),
        (["na", *map(str, range(-55, 0))], [None, *range(-55, 0)]),
        ([f"{n}%" for n in AMOUNTS], AMOUNTS),
        ([f"$ {1000 + n:,}" for n in AMOUNTS], [1000 + n for n in AMOUNTS]),
        (
            [f"{1000 + n:_} €".replace(".", ",").replace("_", ".") for n in AMOUNTS],
            [1000 + n for n in AMOUNTS],
        ),
    ],
    ids=[
        "d/m/y",
        "m/d/y",
        "d.m.y h:m",
        "1,5",
        "1.5 or ?",
        "1 or ?",
        "-1 or na",
        "1.5%",
        "$ 1,200.5",
        "1.200,5 €",
    ],
)
@pytest.mark.parametrize("times", [1, 2], ids=["refused", "warned of"])
def test_dates_and_numbers_in_text_are_named_with_what_reads_them(texts, meant, times, tmp_path):
    frame = pd.DataFrame({"x": 1, "sold": texts * times, "kind": list("ab") * (28 * times)})
    frame["x"] = np.random.default_rng(0).integers(0, 9, len(frame))
    frame.to_csv(tmp_path / "a.csv", index=False)
    said = re.escape(f"such as '{min(texts, key=lambda text: (text == '?', text))}'")
    fit = GaussianNB().fit
    if times == 1:
        with pytest.raises(ValueError, match=said) as caught:
            fit(scan(tmp_path / "a.csv", "kind"))
        remedy = str(caught.value)
    else:
        with pytest.warns(UserWarning, match=said) as warned:
            fit(scan(tmp_path / "a.csv", "kind"))
        remedy = str(warned[0].message)
        assert len(warned) == 1
    if option := re.search("format='(.*?)';", remedy):
        assert "exclude=" not in remedy
        source = scan(tmp_path / "a.csv", "kind", format=option[1], missing="drop")
    else:
        number = re.search(r"number=(.*\))\), by", remedy)[1]
        source = scan(tmp_path / "a.csv", "kind", exclude=["sold"])
        source = source.with_columns(sold=eval(number, vars(pyarrow.compute)))
    meant = pd.Series(meant * times)
    if isinstance(meant[5], str):
        meant = (pd.to_datetime(meant, format="%d/%m/%Y") - pd.Timestamp(0)) / pd.Timedelta(days=1)
    expected = pd.to_numeric(meant).groupby(frame["kind"]).mean()
    np.testing.assert_allclose(accumulate(source, "diag").means[:, 1], expected)


@pytest.mark.parametrize("way", ["json", "parquet", "frame"])
def test_dates_in_text_are_named_whatever_holds_them(way, tmp_path):
    frame = pd.DataFrame({"x": np.arange(56.0) % 9, "sold": DAYS, "kind": list("ab") * 28})
    if way == "json":
        frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    elif way == "parquet":
        frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="'sold' has 56 categories in 56 rows: dates as text, such as"):
        if way == "frame":
            GaussianNB(categories="auto").fit(frame[["x", "sold"]], frame["kind"])
        else:
            GaussianNB().fit(scan(tmp_path, "kind"))


def test_text_that_is_just_text_is_learnt_without_a_word(customers, kinds):
    for texts in (
        [f"{n % 90:05d}" if n % 100 else "?" for n in range(400)],  # codes
        [f"{n % 90}" if n % 100 else "7b" for n in range(400)],
        [f"{n % 90}" for n in range(400)],
        [f"192.168.{n % 4}.{n % 30}" for n in range(400)],
        [f"{n % 9}0-{n % 9}9" for n in range(400)],
        [f"32/{n % 60}/2021" for n in range(400)],
    ):
        GaussianNB(categories="auto").fit(customers[["age"]].assign(text=texts), kinds)


def test_new_categories_are_reported_beside_the_drift(customers, kinds):
    before = LinearDiscriminantAnalysis(categories=CHOSEN).fit(customers, kinds)
    moved = customers.assign(city=customers["city"].replace("Oslo", "Bern"))
    after = LinearDiscriminantAnalysis(categories=CHOSEN).fit(moved, kinds)
    report = drift(before.statistics_, after.statistics_)
    assert report.new_categories == ("city=Bern",)
    assert report.alarms(no_new_categories=True) == ("category city=Bern is new",)
    assert "new categories: city=Bern" in str(report)
    assert all(np.isfinite(one.shift).all() for one in report.drift)


def table_of_shops():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    frame = pd.DataFrame({"size": rng.normal(size=400) + y, "shop": 3 * y + rng.integers(0, 4, 400)})
    return frame.assign(note=rng.choice(["a", "b"], 400)), y


@pytest.mark.parametrize("learner", [GaussianNB, LinearDiscriminantAnalysis])
def test_a_search_reads_the_columns_that_its_candidates_name(learner):
    frame, y = table_of_shops()
    model = learner(categories=Categorical(columns=["shop", "note"]))
    search = StatisticsSearchCV(model, {"categories__max_categories": [5, 255]}).fit(frame, y)
    assert search.fold_statistics_.total().allclose(clone(model).fit(frame, y).statistics_, rtol=1e-12)
    assert search.best_estimator_.categories_ == {"shop": list(range(7)), "note": ["a", "b"]}
    batches = StatisticsSearchCV(model, {"categories__max_categories": [5, 255]})
    for half in (slice(0, 200), slice(200, 400)):
        batches.partial_fit(frame[half], y[half])
    assert batches.fold_statistics_.total().allclose(search.fold_statistics_.total(), rtol=1e-12)
    scores = cross_validate(model, frame, y, scoring="accuracy")["test_score"]
    theirs = cross_val_score(model, frame, y, cv=HashedKFold(5), scoring="accuracy")
    assert scores.tolist() == theirs.tolist()


def test_candidates_that_name_other_columns_are_refused_and_arrays_too():
    frame, y = table_of_shops()
    grid = {"categories__columns": [["shop"], ["shop", "note"]]}
    search = StatisticsSearchCV(GaussianNB(categories=Categorical()), grid)
    with pytest.raises(ValueError, match="share one read of the rows, and encode different columns"):
        search.fit(frame, y)
    with pytest.raises(ValueError, match="names columns, and the rows are an array; give a frame"):
        cross_validate(GaussianNB(categories=Categorical(columns=["shop"])), np.eye(4), [0, 0, 1, 1])
