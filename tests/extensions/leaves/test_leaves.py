"""Leaves of trees: those of scikit-learn's forests, and counts of pairs that are those of dense rows."""

import pickle

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

import streamgda
from streamgda import (
    LeafClassifier,
    LeafFeatures,
    LinearDiscriminantAnalysis,
    RidgeClassifier,
    StatisticsLedger,
    StatisticsSearchCV,
    WindowedStatistics,
    accumulate,
    cross_validate,
    evaluate,
    predict_dataset,
    progressive_score,
    scan_arrow,
    scan_parquet,
)
from streamgda.data.blocks.arrays import array_blocks
from streamgda.extensions.leaves import classifier
from streamgda.extensions.leaves.classifier import check_memory
from streamgda.extensions.leaves.rule import LeafRows
from streamgda.extensions.leaves.solver import LeafRidge

KINDS = {"random": RandomForestClassifier, "extra": ExtraTreesClassifier}


def rows(n=600, d=5, seed=0, n_classes=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).round(rng.integers(1, 9))
    return X, (np.floor(2 * X[:, 0] * X[:, 1]) + rng.integers(0, 2, n)).astype(int) % n_classes


def table(X, y, **others):
    return pa.table({**{f"x{j}": column for j, column in enumerate(X.T)}, "y": y, **others})


@given(
    st.integers(0, 2**31), st.sampled_from(sorted(KINDS)), st.sampled_from([None, 2, 7, 40]), st.booleans()
)
def test_a_row_has_the_leaves_of_scikit_learns_apply(seed, kind, max_leaves, lacks):
    rng = np.random.default_rng(seed)
    X, y = rows(200, 4, seed)
    X *= 10.0 ** rng.integers(-3, 4)
    X[rng.random(X.shape) < 0.1 * lacks] = np.nan
    features = LeafFeatures(3, max_leaves, kind, random_state=seed % 99).fit(X[:150], y[:150])
    forest = KINDS[kind](3, max_leaf_nodes=max_leaves, max_features=0.4, random_state=seed % 99)
    singles = X.astype(np.float32)
    applied = forest.fit(singles[:150], y[:150]).apply(singles)
    thresholds = np.concatenate([tree.tree_.threshold for tree in forest.estimators_]).astype(np.float32)
    near = np.resize(np.nextafter(thresholds, np.float32(1)), (50, 4))  # where a rounding would be seen
    for own, theirs in ((features.leaves(X), applied), (features.leaves(near), forest.apply(near))):
        for t, tree in enumerate(forest.estimators_):
            leaves = np.flatnonzero(tree.tree_.children_left < 0)
            np.testing.assert_array_equal(leaves[own[:, t] - features.firsts[t]], theirs[:, t])
    loaded = LeafFeatures.from_document(features.to_document())
    np.testing.assert_array_equal(loaded.leaves(X), features.leaves(X))
    assert (features.transform(X).sum(axis=1) == 3).all()


@given(st.integers(0, 2**31), st.sampled_from(["none", "whole", "any"]))
def test_counts_are_those_of_dense_rows_however_they_are_cut(seed, weighed):
    rng = np.random.default_rng(seed)
    X, y = rows(300, 4, seed)
    weights = {"none": np.ones(300), "whole": rng.integers(1, 9, 300), "any": rng.random(300) + 0.01}[weighed]
    rule = LeafRows(LeafFeatures(4, 12, random_state=0).fit(X, y))
    Z = rule.features.transform(X).toarray()
    parts = np.array_split(rng.permutation(300), rng.integers(1, 6))
    states = [rule.empty().update(X[own], y[own], weights[own]) for own in parts]
    state = sum(states)
    np.testing.assert_allclose(state.pairs.toarray(), np.triu(Z.T @ (Z * weights[:, None])), rtol=1e-12)
    dense = [np.average(Z[y == k], axis=0, weights=weights[y == k]) for k in state.classes]
    np.testing.assert_allclose(state.means, dense, rtol=1e-12)
    rest = state - states[0]
    assert rest.allclose(sum(states[1:], rule.empty()))
    if weighed != "any":  # sums of whole numbers have the same bits in any order
        assert state == sum(states[::-1]) == rule.empty().update(X, y, weights)
        assert rest == sum(states[1:], rule.empty())
    for part in states:
        state = state - part
    assert state.n_rows == state.pairs.nnz == 0
    state = sum(states)
    with pytest.raises(ValueError, match="never went into the state|cannot be removed|cannot remove"):
        _ = states[0] - state - states[0]
    for copy in (pickle.loads(pickle.dumps(state)), streamgda.from_bytes(state.to_bytes())):
        assert copy == state


@pytest.mark.parametrize("weight", [0.1, 1e18 / 3])
def test_a_difference_is_empty_whatever_rounding_left(weight):
    """Of sums of many weights, one by one, in other runs than they were added."""
    X, y = rows(120_000, 2)
    empty = LeafRows(LeafFeatures(2, 2).fit(X[:99], y[:99])).empty()
    parts = [
        empty.copy().update(X[i], y[i], np.full(len(i), weight)) for i in np.split(np.arange(len(X)), [7])
    ]
    whole = empty.copy().update(X, y, np.full(len(X), weight))
    assert (whole - parts[1]).allclose(parts[0], 1e-6)
    assert (whole - parts[1] - parts[0]).pairs.nnz == 0


def test_many_leaves_of_few_rows_are_saved(tmp_path):
    X, y = rows(900)
    state = LeafRows(LeafFeatures(12).fit(X, y)).empty().update(X[:50], y[:50])
    assert state.n_features > 3_000
    assert streamgda.from_bytes(state.to_bytes()) == state
    columns, metadata = state.to_columns()
    with pytest.raises(ValueError, match="and its forest"):
        type(state).from_columns(columns, {**metadata, "n_features": 5_000})


@pytest.mark.parametrize("alpha", ["auto", 3.0])
def test_rows_that_are_all_unseen_choose_nothing(alpha):
    """Equal rows have one hash, by which all of them or none grow the forest."""
    y = np.arange(40) % 2
    for value in range(9):
        X = np.full((40, 1), float(value))
        model = LeafClassifier(alpha=alpha).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X), 0.5)
        assert model.alpha_ == 3.0
    with pytest.raises(ValueError, match="all the rows that the model has learnt"):
        model.calibrate(X, y)


@pytest.mark.parametrize("n_trees", [5, 40])
def test_the_regression_is_that_of_a_dense_solver(n_trees):
    X, y = rows(500)
    rule = LeafRows(LeafFeatures(n_trees, 30).fit(X, y))
    state = rule.empty().update(X, y)
    Z = rule.features.transform(X).toarray()
    centred, indicators = Z - Z.mean(axis=0), np.eye(3)[y]
    for alpha in (0.3, 3.0, 100.0):
        ridge = LeafRidge(state.sums_of_leaves())
        expected = np.linalg.solve(centred.T @ centred + alpha * np.eye(len(Z.T)), centred.T @ indicators)
        np.testing.assert_allclose(ridge.slopes(alpha, tol=1e-8), expected, atol=1e-6)


def test_every_way_to_the_state_is_one(tmp_path):
    X, y = rows(3_000)
    rule = LeafRows(LeafFeatures(4, 20).fit(X[:500], y[:500]))
    whole = rule.empty().update(X, y)
    (tmp_path / "data").mkdir()
    for i in range(3):
        pq.write_table(
            table(X, y).slice(1_000 * i, 1_000), tmp_path / f"data/{i}.parquet", row_group_size=300
        )
    for source in (scan_arrow(table(X, y), "y"), scan_parquet(tmp_path / "data", "y")):
        assert accumulate(source, "tied", rule=rule).allclose(whole)
    state = accumulate(source, "tied", rule=rule, checkpoint=tmp_path / "checkpoint")
    assert accumulate(source, "tied", rule=rule, checkpoint=tmp_path / "checkpoint") == state
    state.save(tmp_path / "state")
    rule.empty().save(tmp_path / "empty")
    pairs = (tmp_path / "state").stat().st_size - (tmp_path / "empty").stat().st_size
    assert pairs < 4 * (state.pairs.nnz + 3 * 80) + 2_000  # bytes, of a step and a weight each
    assert streamgda.load(tmp_path / "state") == state
    with pytest.raises(ValueError, match="'tied' alone, without full"):
        accumulate(source, "full", rule=rule)
    with pytest.raises(ValueError, match="other maps .* one LeafFeatures"):
        _ = whole + LeafRows(LeafFeatures(4, 20, random_state=1).fit(X, y)).empty().update(X, y)
    with pytest.raises(ValueError, match="no scatter"):
        _ = whole.scatter
    np.testing.assert_allclose(whole.copy().decay(0.5).weights, whole.weights / 2)


def test_windows_and_ledgers_forget_to_the_bit(tmp_path):
    X, y = rows(3_000)
    rule = LeafRows(LeafFeatures(4, 20).fit(X[:500], y[:500]))
    days = [rule.empty().update(X[own], y[own]) for own in np.array_split(np.arange(3_000), 5)]
    window = WindowedStatistics(3, "tied", rule=rule).update(X[:600], y[:600])
    for day in days[1:]:
        window.append(day)
    window.save(tmp_path / "window")
    assert window.statistics == sum(days[2:], rule.empty())
    assert (
        WindowedStatistics.load(tmp_path / "window").append(days[0]).statistics == days[3] + days[4] + days[0]
    )
    (tmp_path / "data").mkdir()
    for i, own in enumerate(np.array_split(np.arange(3_000), 5)):
        pq.write_table(table(X[own], y[own]), tmp_path / f"data/{i}.parquet")
    ledger = StatisticsLedger(tmp_path / "ledger", covariance_type="tied", rule=rule, folds=3)
    ledger.refresh(scan_parquet(tmp_path / "data", "y"))
    assert ledger.statistics() == sum(days, rule.empty())
    (tmp_path / "data/1.parquet").unlink()
    ledger.refresh(scan_parquet(tmp_path / "data", "y"))
    assert ledger.statistics() == days[0] + sum(days[2:], rule.empty())
    (entry,) = (tmp_path / "ledger/entries").iterdir()
    assert b"roots" not in entry.read_bytes()  # the forest, once in ledger.parquet
    pq.write_table(table(X[600:1_200], y[600:1_200]), tmp_path / "data/5.parquet")
    with pytest.raises(ValueError, match="compared by the shares of the classes alone; leave out max_shift"):
        ledger.refresh(scan_parquet(tmp_path / "data", "y"), max_shift=1)
    report = ledger.refresh(scan_parquet(tmp_path / "data", "y"), max_share_shift=9)
    assert [one.prior for one in report.drift] == (days[1].weights / 600).tolist()
    assert str(report).count("NaN") == 2 * len(report.drift)  # shift and divergence
    assert ledger.statistics() == sum(days, rule.empty())
    assert b"roots" in (tmp_path / "ledger/ledger.parquet").read_bytes()


@pytest.mark.slow
def test_workers_of_a_cluster_count_as_threads_do(tmp_path):
    X, y = rows(3_000)
    for i in range(3):
        pq.write_table(table(X, y).slice(1_000 * i, 1_000), tmp_path / f"{i}.parquet", row_group_size=300)
    source = scan_parquet(tmp_path, "y")
    here = LeafClassifier(features=LeafFeatures(4, 50)).fit(source)
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        there = LeafClassifier(features=LeafFeatures(4, 50)).fit(source, scheduler=client)
    assert there.statistics_ == here.statistics_
    assert there.validation_log_loss_ == here.validation_log_loss_


def test_leaves_are_sparse_rows_of_other_models():
    X, y = rows(2_000)
    features = LeafFeatures(4, 30).fit(X[:500], y[:500])
    Z = features.transform(X)
    model, dense = RidgeClassifier(alpha=2.0).fit(Z, y), RidgeClassifier(alpha=2.0).fit(Z.toarray(), y)
    np.testing.assert_allclose(model.decision_function(Z), dense.decision_function(Z.toarray()), atol=1e-9)
    mapped = RidgeClassifier(alpha=2.0).fit(scan_arrow(table(X, y), "y").map(features))
    np.testing.assert_allclose(mapped.decision_function(Z), model.decision_function(Z), atol=1e-9)


def test_a_model_learns_merges_and_gains_classes(tmp_path):
    X, y = rows(4_000)
    forest = FrozenEstimator(LeafFeatures(8, 100).fit(X, y))
    whole = LeafClassifier(features=forest).fit(X, y)
    parts = [
        LeafClassifier(features=forest).fit(X[own], y[own]) for own in np.array_split(np.arange(4_000), 3)
    ]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.statistics_ == whole.statistics_
    np.testing.assert_array_equal(merged.predict_proba(X), whole.predict_proba(X))
    whole.save(tmp_path / "model")
    loaded = streamgda.load(tmp_path / "model")
    assert loaded.alpha_ == whole.alpha_
    np.testing.assert_array_equal(loaded.predict_proba(X), whole.predict_proba(X))
    late = LeafClassifier(features=forest).fit(X[y < 2][:900], y[y < 2][:900])
    late.partial_fit(X, y)
    assert late.classes_.tolist() == [0, 1, 2]
    assert late.score(X[y == 2], y[y == 2]) > 0.3
    assert LeafClassifier.from_statistics(whole.statistics_).alpha_ == 3.0


def test_every_way_in_is_one_model(tmp_path):
    X, y = rows(2_000)
    (tmp_path / "data").mkdir()
    for i in range(2):
        pq.write_table(table(X, y).slice(1_000 * i, 1_000), tmp_path / f"data/{i}.parquet")
    source = scan_parquet(tmp_path / "data", "y")
    forest = FrozenEstimator(LeafFeatures(5, 50).fit(X, y))
    model = LeafClassifier(features=forest, alpha=2.0).fit(source)
    expected, state = model.predict_proba(X), model.statistics_
    np.testing.assert_allclose(model.decision_function(X), model.to_sklearn().decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(
        model.predict(da.from_array(X, chunks=(900, 5))).compute(), model.predict(X)
    )
    ledger = StatisticsLedger(tmp_path / "ledger", covariance_type="tied", rule=state.rule)
    ledger.refresh(source)
    for other in (
        LeafClassifier(features=forest, alpha=2.0).fit(X, y),
        LeafClassifier(features=forest, alpha=2.0).partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:]),
        clone(model).fit(da.from_array(X, chunks=(900, 5)), da.from_array(y, chunks=900)),
        LeafClassifier.from_statistics(ledger.statistics(), alpha=2.0),
        pickle.loads(pickle.dumps(model)),
        streamgda.from_bytes(model.to_bytes()),
    ):
        assert other.statistics_ == state
        np.testing.assert_array_equal(other.decision_function(X).argmax(1), expected.argmax(1))
    named = LeafClassifier(features=LeafFeatures(3, 9)).fit(source)
    frame = table(X, y).drop(["y"]).to_pandas()
    np.testing.assert_array_equal(named.as_pipeline(source).predict(frame), named.predict(frame))
    predict_dataset(model, source, tmp_path / "out", columns=["label"])
    written = np.concatenate([pq.read_table(tmp_path / "out")["predicted_label"].to_numpy()])
    assert sorted(written) == sorted(model.predict(X))
    assert evaluate(model, source).accuracy == pytest.approx(model.score(X, y))
    assert progressive_score(LeafClassifier(features=LeafFeatures(5, 50)), source).accuracy > 0.36
    grid = {"alpha": [2.0, 1e4], "features": [LeafFeatures(2, 4), LeafFeatures(9, 90)]}
    steps = (X[:, :4] > 0).sum(axis=1)
    search = StatisticsSearchCV(LeafClassifier(), grid, scoring="neg_log_loss", cv=3)
    for found in (search.fit(scan_arrow(table(X, steps), "y")), GridSearchCV(LeafClassifier(), grid, cv=3)):
        found.fit(X, steps)
        assert found.best_params_ == {"alpha": 2.0, "features": grid["features"][1]}
    assert cross_validate(model, X, y, cv=3, scoring="accuracy")["test_score"].mean() > 0.4


@pytest.mark.parametrize("town", [None, "many"])
def test_rows_that_grew_the_forest_judge_no_model(town, tmp_path):
    """Where labels are noise, trees know those of their own rows alone. Categories differ by file."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4_000, 3)), rng.integers(0, 2, 4_000)
    towns = {} if town is None else {"town": [f"{town}{i // 100}" for i in rng.permutation(4_000)]}
    for i, part in enumerate(np.split(np.arange(4_000), 4)):
        pq.write_table(table(X, y, **towns).take(part), tmp_path / f"{i}.parquet", row_group_size=200)
    source, features = scan_parquet(tmp_path, "y"), LeafFeatures(9)
    model = LeafClassifier(features=features, alpha=1.0).fit(source)
    search = StatisticsSearchCV(LeafClassifier(features=features), {"alpha": [1.0]}, scoring="accuracy")
    scores = cross_validate(LeafClassifier(features=features), source, cv=3, scoring="accuracy")["test_score"]
    found = np.array([1 - model.validation_error_, search.fit(source).best_score_, scores.mean()])
    assert (np.abs(found - 0.5) < 0.09).all()  # four deviations of 500 rows
    with pytest.raises(ValueError, match="has seen the labels of all rows of the fold"):
        cross_validate(model, X[:40], y[:40], cv=9, scoring="accuracy", error_score="raise")


def test_a_small_unit_of_weights_changes_no_prediction():
    X, y = rows(1_000)
    features = FrozenEstimator(LeafFeatures(3, 8).fit(X, y))
    whole = LeafClassifier(features=features).fit(X, y)
    light = LeafClassifier(features=features).fit(X, y, sample_weight=np.full(1_000, 2.0**-20))
    decayed = LeafClassifier.from_statistics(whole.statistics_.copy().decay(2.0**-9))
    plain = LeafClassifier.from_statistics(whole.statistics_)
    np.testing.assert_array_equal(light.predict(X), whole.predict(X))
    np.testing.assert_allclose(decayed.decision_function(X), plain.decision_function(X), rtol=1e-9, atol=1e-9)


def test_rows_that_are_known_are_scored_by_the_model_of_the_others():
    X, y = rows(2_000)
    forest = FrozenEstimator(LeafFeatures(5, 50).fit(X[:500], y[:500]))
    model = LeafClassifier(features=forest, alpha=2.0).fit(X, y)
    rest = LeafClassifier(features=forest, alpha=2.0, calibration=None).fit(X[:1_500], y[:1_500])
    known = model.calibrate(X[1_500:], y[1_500:], method="temperature").validation_error_
    unknown = rest.calibrate(X[1_500:], y[1_500:], method="temperature", learnt=False).validation_error_
    assert known == unknown == pytest.approx(1 - rest.score(X[1_500:], y[1_500:]))
    with pytest.raises(ValueError, match="never went into the state"):
        rest.calibrate(X[1_500:], y[1_500:])


def fitted():
    X, y = rows()
    return LeafClassifier(features=LeafFeatures(2, 9)).fit(X, y)


def empty(**required):
    return accumulate(scan_arrow(table(*rows()), "y"), "tied", rule=fitted().statistics_.rule, **required)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fitted().to_sql("rows"), "no other system has the map"),
        (lambda: empty(exact=True), "'tied' alone"),
        (lambda: empty(missing="marginal"), "takes complete rows"),
        (lambda: fitted().statistics_.scatter, "holds the pairs that occur"),
        (
            lambda: streamgda.drift(*[fitted().statistics_] * 2).alarms(max_divergence=1),
            "by the shares of the classes alone",
        ),
        (lambda: fitted()._scores.mapped(None), "on the host alone"),
        (lambda: fitted().contributions([[0] * 5]), "of mapped features alone"),
        (
            lambda: LinearDiscriminantAnalysis.from_statistics(fitted().statistics_).predict([[0]]),
            "no scatter",
        ),
        (
            lambda: LeafClassifier.from_statistics(accumulate(scan_arrow(table(*rows()), "y"), "tied")),
            "were not",
        ),
        (lambda: LeafClassifier(features=LeafFeatures(2, kind="pine")).fit(*rows()), "'random' or 'extra'"),
        *((lambda name=name: getattr(fitted(), name), "step by step") for name in ("df_", "gcv_", "alphas_")),
        (lambda: fitted().gcv_path_, "step by step"),
    ],
)
def test_what_cannot_be_says_so_in_one_line(call, said):
    with pytest.raises((ValueError, AttributeError), match=said) as error:
        call()
    assert "\n" not in str(error.value)


def test_memory_that_is_not_there_is_told_before_rows_are_read(monkeypatch):
    X, y = rows(1_000)
    rule = LeafRows(LeafFeatures(30).fit(X, y))
    blocks = [*scan_arrow(table(X, y), "y").splits()[0].blocks()]
    check_memory(rule, lambda: blocks, 1e3)
    monkeypatch.setattr(classifier, "physical_memory", lambda: 1e7)
    with pytest.raises(MemoryError, match=r"of 30 trees need about .* GB for pairs .*\. Grow fewer trees"):
        check_memory(rule, lambda: blocks, 1e6)


def test_the_error_on_unseen_rows_is_the_one_that_is_told():
    X, y = rows(20_000)
    model = LeafClassifier(features=LeafFeatures(8, 200)).fit(X[:10_000], y[:10_000])
    error = 1 - model.score(X[10_000:], y[10_000:])
    n = 1_250  # an eighth of the rows was not seen
    assert abs(model.validation_error_ - error) < 4 * (error * (1 - error) / n) ** 0.5
    assert model.features_.n_features_in_ == 5


@pytest.mark.parametrize("change", ["children", "roots", "columns", "text"])
def test_a_damaged_forest_is_refused(change):
    X, y = rows(100)
    document = LeafFeatures(2, 5).fit(X, y).to_document()
    damaged = {
        "children": {
            "nodes": [
                document["nodes"][0],
                document["nodes"][1][::-1].replace("=", "A"),
                *document["nodes"][2:],
            ]
        },
        "roots": {"roots": [0, 999]},
        "columns": {"n_columns": 1},
        "text": {"nodes": ["?"] * 4},
    }
    with pytest.raises(ValueError, match="no forest"):
        LeafFeatures.from_document({**document, **damaged[change]})


def test_rows_in_memory_are_counted_many_at_once():
    X, y = rows(60_000)
    empty = LeafRows(LeafFeatures(8, 400).fit(X[:5_000], y[:5_000])).empty()
    blocks = (part for block in array_blocks(X, y) for part in empty._cut(empty.rule.assign(block)))
    assert len(list(empty._groups(blocks))) == 1  # each is merged with all rows before it
