"""Searches from the states of folds against scikit-learn's, which fits each candidate to each part."""

import hashlib
import signal
import warnings
from itertools import count, pairwise

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit, StratifiedKFold

from streamgda import (
    ClassStatistics,
    GaussianNB,
    HashedKFold,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsSearchCV,
    cross_validate,
    learning_curve,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)
from streamgda.jobs.passes.accumulate import accumulate
from tests.data.tables import parquet_files, zarr_group
from tests.folds import read_folds
from tests.interrupted import check_interruptions
from tests.statistics.test_one_moment import learning

LDA, QDA = LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis


def rows(n_classes=3, n_rows=400, n_features=4, seed=0):
    """Classes that overlap, so that no probability is 0 or 1 in float64."""
    rng = np.random.default_rng(seed)
    X, y = make_classification(
        n_rows, n_features, n_informative=n_features, n_redundant=0, n_classes=n_classes, random_state=seed
    )
    return X + rng.normal(size=X.shape), y


def joint_log_likelihood(model, X, y):
    """The mean of ln p(x, k), from the densities of rows."""
    log_joint = model.predict_log_proba(X) + model.score_samples(X)[:, None]
    return log_joint[np.arange(len(y)), np.searchsorted(model.classes_, y)].mean()


SCORERS = {
    "log_likelihood": joint_log_likelihood,
    **{name: name for name in ("accuracy", "neg_log_loss", "neg_brier_score", "f1_macro")},
}

GRIDS = [
    (QDA(), {"reg_param": [0.0, 0.1], "shrinkage": [None, 0.2, "oas"]}),
    (QDA(), {"shrinkage": ["auto", None]}),
    (LDA(), {"shrinkage": [None, 0.3, "auto"], "priors": [None, [0.5, 0.3, 0.2]]}),
    (GaussianNB(), {"var_smoothing": [1e-9, 0.1]}),
    (QDA(exact=True), {"reg_param": [0.0, 0.5]}),
    (QDA(), {"pooling": [None, 0.3, "bayes"], "predictive": ["plugin", "student"]}),
    (GaussianNB(), {"pooling": ["bayes"], "predictive": ["plugin", "student"]}),
]


@pytest.mark.slow_cases("Quadratic", "Linear", "smoothing")
@pytest.mark.parametrize(("estimator", "grid"), GRIDS, ids=str)
def test_scores_are_those_of_grid_search_over_the_same_folds(estimator, grid):
    X, y = rows()
    theirs = GridSearchCV(
        estimator,
        grid,
        cv=PredefinedSplit(HashedKFold(4).folds(len(X)).astype(int)),
        scoring={**SCORERS, "roc_auc": "roc_auc_ovr"},
        refit="neg_log_loss",
    ).fit(X, y)
    ours = StatisticsSearchCV(estimator, grid, cv=4, scoring=[*SCORERS, "roc_auc"], refit="neg_log_loss").fit(
        X, y
    )
    assert_same_results(ours.cv_results_, theirs.cv_results_)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    assert ours.n_reads_ == 2


def assert_same_results(ours, theirs):
    """The same keys, but for the reasons of failures, and the same scores."""
    assert set(ours) - set(theirs) == {"fit_error"}
    assert not set(theirs) - set(ours)
    assert ours["params"] == theirs["params"]
    for name, values in theirs.items():
        if "test_" in name:
            np.testing.assert_allclose(ours[name], values, atol=1e-8, err_msg=name)
        elif name.startswith("param_"):
            assert ours[name].tolist() == values.tolist()


@pytest.mark.slow_cases("accuracy", "log_loss")
@pytest.mark.parametrize("scoring", [*SCORERS, "roc_auc"])
def test_one_scoring_of_two_classes(scoring):
    X, y = rows(n_classes=2)
    y = np.array(["no", "yes"])[y]
    grid = {"reg_param": [0.0, 0.01, 0.9]}
    folds = HashedKFold(3).folds(len(X)).astype(int)
    theirs = GridSearchCV(QDA(), grid, cv=PredefinedSplit(folds), scoring=SCORERS.get(scoring, scoring))
    if scoring == "neg_brier_score":  # the scorer of scikit-learn asks for a label of 1
        theirs.set_params(scoring=lambda m, X, y: -np.mean((m.predict_proba(X)[:, 1] - (y == "yes")) ** 2))
    theirs.fit(X, y)
    ours = StatisticsSearchCV(QDA(), grid, cv=3, scoring=scoring).fit(X, y)
    assert_same_results(ours.cv_results_, theirs.cv_results_)
    assert ours.n_reads_ == (1 if scoring == "log_likelihood" else 2)
    pd.DataFrame(ours.cv_results_)


def test_different_estimators_in_one_search():
    X, y = rows()
    grids = [
        {"estimator": [LDA(), QDA()], "shrinkage": [None, 0.1]},
        {"estimator": [GaussianNB()], "var_smoothing": [1e-9]},
    ]
    search = StatisticsSearchCV(None, grids, scoring=["log_likelihood", "accuracy"], refit="accuracy").fit(
        X, y
    )
    assert len(search.cv_results_["params"]) == 5
    assert search.cv_results_["param_var_smoothing"].mask.tolist() == [True] * 4 + [False]
    for i, params in enumerate(search.cv_results_["params"]):
        alone = StatisticsSearchCV(
            params["estimator"], {k: [v] for k, v in params.items() if k != "estimator"}
        ).fit(X, y)
        assert alone.best_score_ == pytest.approx(
            search.cv_results_["mean_test_log_likelihood"][i], abs=1e-12
        )


@pytest.mark.parametrize("cv", [KFold(4), StratifiedKFold(3, shuffle=True, random_state=0)])
def test_splitters_of_scikit_learn(cv):
    X, y = rows()
    grid = {"shrinkage": [None, 0.5]}
    theirs = GridSearchCV(LDA(), grid, cv=cv, scoring="neg_log_loss").fit(X, y)
    ours = StatisticsSearchCV(LDA(), grid, cv=cv, scoring="neg_log_loss").fit(X, y)
    assert_same_results(ours.cv_results_, theirs.cv_results_)


def test_a_column_of_folds_is_a_predefined_split(tmp_path):
    X, y = rows()
    folds = np.random.default_rng(1).integers(-1, 3, len(X))
    grid = {"reg_param": [0, 0.1]}
    theirs = GridSearchCV(QDA(), grid, cv=PredefinedSplit(folds), scoring="neg_log_loss").fit(X, y)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=y, part=folds)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=150)
    source = scan_parquet(tmp_path, "kind", exclude=["part"])
    for where in (source, scan_arrow(frame, "kind", exclude=["part"])):
        ours = StatisticsSearchCV(QDA(), {"reg_param": [0, 0.1]}, fold="part", scoring="neg_log_loss").fit(
            where
        )
        assert_same_results(ours.cv_results_, theirs.cv_results_)
    ours = StatisticsSearchCV(QDA(), grid, fold=folds, scoring="neg_log_loss").fit(X, y)
    assert_same_results(ours.cv_results_, theirs.cv_results_)


# ---------------------------------------------------------------------- folds


def written(folder, X, y, *, groups=None, parts=3, row_group_size=64):
    """The rows in some files."""
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"kind": y}
    columns |= {} if groups is None else {"who": groups}
    return parquet_files(folder, pa.table(columns), parts, row_group_size=row_group_size)


def test_folds_are_written_down():
    """The folds of rows must never change: ledgers keep statistics by them."""
    assert HashedKFold(5).folds(12).tolist() == [4, 2, 4, 1, 4, 4, 2, 1, 4, 2, 1, 3]
    assert HashedKFold(5).folds(12).tolist() == [split_mix(row) % 5 for row in range(12)]
    assert HashedKFold(5).folds(4, groups=["a", "b", "c", "a"]).tolist() == [3, 3, 0, 3]


def split_mix(row):
    """SplitMix64 in Python's integers, from the state that "" hashes to."""
    seed = int.from_bytes(hashlib.blake2b(b"", digest_size=8).digest(), "little")
    z = (seed + row * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_folds_are_as_even_as_chance(n_folds):
    counts = np.bincount(HashedKFold(n_folds).folds(100_000), minlength=n_folds)
    expected = 100_000 / n_folds
    assert ((counts - expected) ** 2 / expected).sum() < 4 * n_folds


def test_folds_do_not_depend_on_row_groups_or_tasks(tmp_path):
    X, y = rows()
    states = [
        read_folds(scan_parquet(written(tmp_path / str(size), X, y, row_group_size=size), "kind"), 5)
        for size in (7, 64, 1000)
    ]
    for state in states[1:]:
        assert all(state[fold].allclose(states[0][fold]) for fold in range(5))


def test_a_filter_leaves_rows_in_their_folds(tmp_path):
    X, y = rows()
    folder = written(tmp_path, X, y, parts=1)
    whole = read_folds(scan_parquet(folder, "kind"), 3)
    of_two = read_folds(scan_parquet(folder, "kind", filters=[("kind", "<", 2)]), 3)
    for fold in range(3):
        np.testing.assert_array_equal(of_two[fold].counts, whole[fold].counts[:2])


@pytest.mark.parametrize("groups", [None, "who"])
def test_rows_have_the_same_folds_wherever_they_are(tmp_path, groups):
    """In chunks and partitions of any length."""
    X, y = rows()
    who = np.random.default_rng(0).integers(0, 40, len(X))
    zarr_group(tmp_path / "rows.zarr", 90, X=X, y=y, w=np.ones(len(y)), who=who)
    table = pa.table({f"x{j}": X[:, j] for j in range(4)} | {"kind": y, "who": who})
    sources = [
        scan_zarr(tmp_path / "rows.zarr", weight="w"),
        scan_arrow(table, "kind", exclude=["who"]),
        scan_arrow(table.to_reader(33), "kind", exclude=["who"]),
    ]
    arrays = da.from_array(X, chunks=(70, 2)), da.from_array(y, chunks=50)
    if groups is None:
        sources.append(scan_dask(*arrays))
    else:
        frame = dd.from_pandas(table.to_pandas(), npartitions=3)
        sources.append(scan_dask(frame, "kind", exclude=["who"]))
        with pytest.raises(TypeError, match="no columns beside the features"):
            StatisticsSearchCV(LDA(), {}, groups="who").fit(*arrays)
    folds = HashedKFold(5).folds(len(X), who if groups else None)
    for source in sources:
        states = read_folds(source.with_groups("who") if groups else source, 5, groups)
        for fold in range(5):
            assert states[fold].allclose(ClassStatistics().update(X[folds == fold], y[folds == fold]))


def test_rows_of_a_group_share_a_fold(tmp_path):
    X, y = rows()
    who = np.random.default_rng(0).integers(0, 40, len(X)).astype(str)
    source = scan_parquet(written(tmp_path, X, y, groups=who), "kind", exclude=["who"])
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1]}, groups="who").fit(source)
    folds = HashedKFold(5).folds(len(X), who)
    assert all(len(set(folds[who == name])) == 1 for name in set(who))
    theirs = GridSearchCV(
        LDA(), {"shrinkage": [0.1]}, cv=PredefinedSplit(folds.astype(int)), scoring=joint_log_likelihood
    ).fit(X, y)
    assert search.best_score_ == pytest.approx(theirs.best_score_, abs=1e-8)


@pytest.mark.slow
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(2, 7))
def test_any_batches_give_the_search_of_all_rows(sizes, n_folds):
    X, y = rows(n_rows=200, n_classes=2)
    whole = StatisticsSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]}, cv=n_folds).fit(X, y)
    search = clone(whole)
    bounds = [0, *np.minimum(np.cumsum(sizes), 200), 200]
    for start, stop in pairwise(bounds):
        if start < stop:
            search.partial_fit(X[start:stop], y[start:stop])
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"], rtol=1e-12
    )
    assert search.best_params_ == whole.best_params_


# ---------------------------------------------------------------------- schedulers


def test_processes_give_the_bits_of_one_thread(tmp_path):
    X, y = rows(n_rows=900)
    source = scan_parquet(written(tmp_path, X, y, parts=5), "kind")
    search = StatisticsSearchCV(QDA(), {"reg_param": [0.0, 0.1]}, scoring=[*SCORERS, "roc_auc"], refit=False)
    expected = clone(search).fit(source, scheduler="synchronous")
    found = search.fit(source, scheduler="processes")
    assert found.fold_statistics_ == expected.fold_statistics_
    for name, values in expected.cv_results_.items():
        if "test_" in name:
            np.testing.assert_array_equal(found.cv_results_[name], values)


# ---------------------------------------------------------------------- what fails


def test_a_singular_candidate_has_no_score_and_says_why():
    X, y = rows()
    X = np.column_stack([X, X[:, 0]])
    with pytest.warns(FitFailedWarning, match="3 of 6 fits failed"):
        search = StatisticsSearchCV(QDA(), {"reg_param": [0.0, 0.1]}, cv=3).fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False]
    assert search.cv_results_["rank_test_score"].tolist() == [2, 1]
    assert "collinear" in search.cv_results_["fit_error"][0]
    assert search.cv_results_["fit_error"][1] == ""
    assert search.best_params_ == {"reg_param": 0.1}
    with pytest.raises(ValueError, match="3 of 6 fits failed"):
        search.set_params(error_score="raise").fit(X, y)
    with pytest.raises(ValueError, match="3 of 3 fits failed"):
        StatisticsSearchCV(QDA(), {"reg_param": [0.0]}, cv=3).fit(X, y)


def test_folds_that_fail_alike_have_one_reason():
    X, y = rows(n_features=20, n_rows=60)
    with pytest.raises(ValueError, match="not full rank") as raised:
        StatisticsSearchCV(QDA(), {}, cv=4).fit(np.hstack([X, X**2]), y)
    assert str(raised.value).count("not full rank") == 1


def test_no_candidate_is_the_best_of_scores_that_are_not_defined():
    X, y = rows(n_classes=2)
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1, 0.5]}, fold=2 * y + np.arange(len(y)) % 2)
    undefined = pytest.warns(
        UserWarning, match="'roc_auc' is not defined in folds 0, 1, 2, 3, as for rows of"
    )
    with undefined, pytest.raises(ValueError, match="no candidate has a score in each fold"):
        search.set_params(scoring="roc_auc").fit(X, y)
    search.set_params(scoring="log_likelihood", fold=None).fit(search.fold_statistics_)
    assert search.best_score_ < 0


def test_a_class_that_a_training_part_lacks_is_named():
    X, y = rows()
    y[5] = 9
    search = StatisticsSearchCV(GaussianNB(), {"var_smoothing": [1e-9]})
    with pytest.raises(ValueError, match=r"class 9: fold .* holds all of it \(1 row\)"):
        search.fit(X, y)
    assert search.fold_statistics_.n_rows == len(X)  # what was read is kept


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("at", [1, 2, "end"])
def test_after_ctrl_c_a_fitted_search_is_as_it_was(tmp_path, at):
    """In the first read, in the second, and when the best model is made."""
    X, y = rows()
    pd.DataFrame(X, columns=list("abcdefgh")[: X.shape[1]]).assign(kind=y).to_parquet(
        tmp_path / "rows.parquet"
    )
    source = scan_parquet(tmp_path / "rows.parquet", "kind")
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1, 0.2]}, scoring="accuracy").fit(X, y)
    before, calls = vars(search).copy(), []

    def interrupt(*_):
        calls.append(1)
        if len(calls) == at or at == "end":
            signal.raise_signal(signal.SIGINT)

    if at == "end":
        search.set_params(refit=interrupt)
        before["refit"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        search.fit(source, progress=False if at == "end" else interrupt)
    assert vars(search) == before
    assert search.predict(X[:2]).shape == (2,)


def test_a_search_that_is_wrongly_asked_for_keeps_what_it_has_found():
    X, y = rows()
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1, 0.2]}).fit(X, y)
    with pytest.raises(ValueError, match="there is no parameter 'depth'"):
        search.set_params(param_grid={"depth": [1]}).fit(X, y)
    assert "shrinkage" in search.best_params_


@pytest.mark.parametrize(
    "judge",
    [
        lambda model, X, y: StatisticsSearchCV(model, {"var_smoothing": [0.1]}).fit(X, y),
        lambda model, X, y: cross_validate(model, X, y, cv=5),
        lambda model, X, y: learning_curve(model, X, y, cv=5),
    ],
)
def test_a_class_of_fewer_rows_than_folds_is_named_in_a_warning(judge):
    X, y = rows()
    y[:3] = 9
    line = judge.__code__.co_firstlineno
    with pytest.warns(UserWarning, match="class 9 has 3 rows, fewer than the 5 folds") as warned:
        judge(GaussianNB(), X, y)
    assert [(one.filename, one.lineno) for one in warned] == [(__file__, line)]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"scoring": "acuracy"}, "scoring 'acuracy' is not known"),
        ({"cv": 1}, "at least 2 folds"),
        ({"cv": "five"}, "cv must be .* got 'five'$"),
        ({"cv": list(KFold(3).split(range(400)))}, "got a list. If it .* name the fold of each row"),
        ({"param_grid": {"shrinkag": [1]}}, "there is no parameter 'shrinkag'; did you mean 'shrinkage'"),
        ({"param_grid": {"regparam": [1]}}, "LinearDiscriminantAnalysis: there is no parameter 'regparam'"),
        ({"scoring": ["accuracy", "log_loss"]}, "refit is False or one of"),
        ({"scoring": ["accuracy"]}, r"refit is False or one of \['accuracy'\]; got True"),
        ({"groups": "who", "fold": "who"}, "groups or fold, not both"),
        ({"cv": 3, "fold": "who"}, "cv or fold, not both"),
        ({"groups": "who"}, "no column 'who'"),
        ({"groups": np.arange(400) % 3}, r"fold \d of 5 has no rows: there are too few groups"),
        ({"scoring": LDA().score}, "scoring <bound method .* is not known; there are 'log_likelihood'"),
        ({"estimator": LogisticRegression(), "param_grid": {"C": [1]}}, "learn from statistics"),
    ],
)
def test_bad_input(params, message):
    X, y = rows()
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1]}).set_params(**params)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        search.fit(X, y)
    assert len(str(caught.value)) < 300


@pytest.mark.slow_cases("accuracy", "brier")
@pytest.mark.slow_cases("2-")
@pytest.mark.parametrize("scoring", sorted(SCORERS))
@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_scores_rows_by_its_scoring_as_grid_search_does(scoring, n_classes):
    X, y = rows(n_classes)
    grid, weights = {"reg_param": [0.0, 0.1]}, np.random.default_rng(0).uniform(0.1, 2, 100)
    ours = StatisticsSearchCV(QDA(), grid, scoring=scoring).fit(X[100:], y[100:])
    theirs = GridSearchCV(QDA(), grid, scoring=SCORERS[scoring]).fit(X[100:], y[100:])
    theirs.best_estimator_ = ours.best_estimator_
    expected = theirs.score(X[:100], y[:100])
    assert ours.score(X[:100], y[:100]) == pytest.approx(expected, rel=1e-12)
    assert ours.scorer_(ours.best_estimator_, X[:100], y[:100]) == ours.score(X[:100], y[:100])
    whole = np.repeat(np.arange(100), weights.round().astype(int))
    weighted = ours.score(X[:100], y[:100], weights.round())
    assert weighted == pytest.approx(ours.score(X[whole], y[whole]), rel=1e-12)


def test_it_scores_by_the_scoring_that_refit_names():
    X, y = rows()
    scorings = ["accuracy", "neg_log_loss"]
    search = StatisticsSearchCV(LDA(), {}, scoring=scorings, refit="neg_log_loss").fit(X, y)
    single = StatisticsSearchCV(LDA(), {}, scoring="neg_log_loss").fit(X, y)
    assert (
        search.score(X, y)
        == single.score(X, y)
        == search.scorer_["neg_log_loss"](search.best_estimator_, X, y)
    )
    assert search.scorer_["accuracy"](search.best_estimator_, X, y) == search.best_estimator_.score(X, y)
    chosen = StatisticsSearchCV(LDA(), {}, scoring=scorings, refit=lambda results: 0).fit(X, y)
    with pytest.raises(ValueError, match="refit names none to score by; call one of scorer_"):
        chosen.score(X, y)
    with pytest.raises(ValueError, match="the model does not know class 9: no score by 'neg_log_loss'"):
        single.score(X, np.where(y == 2, 9, y))
    assert (
        0 < StatisticsSearchCV(LDA(), {}, scoring="accuracy").fit(X, y).score(X, np.where(y == 2, 9, y)) < 1
    )
    with pytest.raises(TypeError, match="to evaluate in place of score"):
        single.score(scan_arrow(pd.DataFrame(X).rename(columns=str).assign(y=y), "y"))


def test_a_source_that_keeps_incomplete_rows_is_refused_to_models_that_learn_none(tmp_path):
    X, y = rows()
    X[3, 1] = np.nan
    path = written(tmp_path, X, y)
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1]})
    with pytest.raises(
        ValueError, match="keeps rows that lack features.* missing='marginal', .* missing='drop'"
    ):
        search.fit(scan_parquet(path, "kind", missing="marginal"))
    assert search.fit(scan_parquet(path, "kind", missing="drop")).fold_statistics_.n_rows == len(X) - 1


def test_a_feature_cannot_group_rows(tmp_path):
    X, y = rows()
    source = scan_parquet(written(tmp_path, X, y, groups=np.arange(len(X))), "kind")
    with pytest.raises(ValueError, match=r"'who' is a feature .* exclude=\['who'\]"):
        StatisticsSearchCV(LDA(), {"shrinkage": [0.1]}, groups="who").fit(source)


BATCH, MORE = ([part[:30] for part in rows()], [part[30:60] for part in rows()])


def search_of(*batches):
    search = StatisticsSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-2]}, cv=3)
    for batch in batches:
        search.partial_fit(*batch)
    return search


def look(search):
    if not hasattr(search, "fold_statistics_"):
        return None
    assert search._n_arrived == search.fold_statistics_.n_rows
    return search.fold_statistics_.total().digest(), search.cv_results_["mean_test_score"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "change", "step"),
    [
        (lambda: search_of(BATCH), lambda search: search.partial_fit(*MORE), 29),
        (search_of, lambda search: search.partial_fit(*MORE), 29),
        (lambda: search_of(BATCH), lambda search: search.fit(*MORE), 401),
    ],
    ids=["batch", "first batch", "fit"],
)
def test_an_interruption_leaves_a_search_as_before_or_as_after(make, change, step):
    check_interruptions(make, change, look, step=step)


def test_threads_that_add_batches_to_a_search_lose_none():
    search, n_batches = search_of(), count()

    def add():
        next(n_batches)
        search.partial_fit(*BATCH)

    with learning(add, add):
        for _ in range(20):
            assert not hasattr(search, "fold_statistics_") or search.best_params_
    assert search.fold_statistics_.n_rows == search._n_arrived == 30 * next(n_batches)


def test_batches_cannot_be_scored_by_row():
    with pytest.raises(ValueError, match="batches are not kept"):
        StatisticsSearchCV(LDA(), {"shrinkage": [0.1]}, scoring="accuracy").partial_fit(*rows())


def test_without_refit_there_is_nothing_to_predict_with():
    X, y = rows()
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1]}, refit=False).fit(X, y)
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(NotFittedError):
        search.predict(X)
    with pytest.raises(NotFittedError):
        clone(search).predict(X)


def test_without_refit_one_scoring_still_has_its_best_candidate():
    X, y = rows()
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.9, 0.0]}, refit=False).fit(X, y)
    assert search.best_params_ == {"shrinkage": 0.0}
    assert search.best_index_ == 1
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    search.set_params(scoring=["accuracy", "f1_macro"]).fit(X, y)
    assert not hasattr(search, "best_params_")  # none of the scorings counts more


def test_it_knows_the_names_of_the_features_as_grid_search_does():
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcd"))
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1]})
    assert not hasattr(search, "feature_names_in_")
    assert search.fit(frame, y).feature_names_in_.tolist() == list("abcd")
    assert not hasattr(search.fit(X, y), "feature_names_in_")
    assert not hasattr(search.set_params(refit=False).fit(frame, y), "feature_names_in_")


def test_it_says_how_long_the_best_estimator_took_and_whether_scorings_are_several():
    X, y = rows()
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1]}).fit(X, y)
    assert search.refit_time_ > 0
    assert search.multimetric_ is False
    search.set_params(scoring=["accuracy"], refit=False).fit(X, y)
    assert not hasattr(search, "refit_time_")
    assert search.multimetric_ is True


@pytest.mark.parametrize("name", ["refit_time_", "multimetric_", "feature_names_in_"])
def test_after_batches_each_attribute_can_be_the_first_that_is_asked_for(name):
    X, y = rows()
    search = StatisticsSearchCV(LDA(), {"shrinkage": [0.1]})
    assert hasattr(search.partial_fit(pd.DataFrame(X, columns=list("abcd")), y), name)


def test_the_best_estimator_is_that_of_one_fit(tmp_path):
    X, y = rows()
    source = scan_parquet(written(tmp_path, X, y), "kind")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = StatisticsSearchCV(QDA(), {"reg_param": [0.0, 0.5]}).fit(source)
    assert search.fold_statistics_.total().allclose(accumulate(source))
    again = StatisticsSearchCV(LDA(), {"shrinkage": [0.0, 0.5]}).fit(search.fold_statistics_)
    assert again.n_reads_ == 0
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])
    alone = LDA(shrinkage=0.0).fit(frame, y)
    np.testing.assert_allclose(again.predict_proba(frame), alone.predict_proba(frame))


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"half_life": [None, 20.0]}, "differ in half_life .*progressive_score"),
        ({"temperature": [1.0, 2.0]}, "differ in temperature .*neg_log_loss"),
        ({"n_components": [1, 2]}, "differ in n_components .*transform"),
    ],
)
def test_a_parameter_that_changes_no_score_is_no_choice(grid, words):
    X, Y = rows(2)
    model = GaussianNB() if "n_components" not in grid else LinearDiscriminantAnalysis()
    search = StatisticsSearchCV(model, grid)
    for call in (search.fit, search.partial_fit):
        with pytest.raises(ValueError, match=words):
            call(X, Y)
    if "temperature" in grid:
        scores = search.set_params(scoring="neg_log_loss").fit(X, Y).cv_results_["mean_test_score"]
        assert scores[0] != scores[1]


def test_batches_of_a_search_do_not_age():
    X, Y = rows(2)
    search = StatisticsSearchCV(GaussianNB(half_life=20.0), {"var_smoothing": [1e-9, 0.1]})
    with pytest.raises(ValueError, match="half_life does nothing here; progressive_score"):
        search.partial_fit(X, Y)
    states = search.fit(X, Y).fold_statistics_
    with pytest.raises(ValueError, match="hold labels, weights and folds already; leave out y"):
        search.fit(states, Y)
