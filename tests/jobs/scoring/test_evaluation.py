"""Evaluations beside scikit-learn's metrics, and the laws by which they merge."""

import copy
import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import log_softmax
from sklearn import metrics
from sklearn.calibration import calibration_curve

from streamgda import Evaluation, GaussianNB, evaluate, load
from streamgda.jobs.scoring.curves import LOWER_EDGES, ScoreHistogram
from tests.contracts.mergeable_contract import MergeableContract
from tests.strategies import label_sets

RNG = np.random.default_rng(0)


def judged_rows(n_rows=8000, n_classes=3, sharpness=2.0):
    """Labels, and scores that lean towards them."""
    y = RNG.integers(0, n_classes, n_rows)
    scores = RNG.normal(size=(n_rows, n_classes)) * sharpness
    scores[np.arange(n_rows), y] += sharpness
    return y, scores


def log_odds(scores):
    """ln p / (1 − p) of each class, by the definition."""
    return np.stack(
        [
            scores[:, k] - np.logaddexp.reduce(np.delete(scores, k, axis=1), axis=1)
            for k in range(scores.shape[1])
        ],
        axis=1,
    )


CASES = {
    "three classes": (judged_rows(), None),
    "two classes": (judged_rows(n_classes=2), None),
    "many classes": (judged_rows(n_rows=1000, n_classes=30), RNG.uniform(0, 3, 1000)),
    "weighted": (judged_rows(), RNG.uniform(0, 3, 8000)),
    "more rows than are exact": (judged_rows(n_rows=35_000, n_classes=2), None),
    "sharp": (judged_rows(sharpness=40.0), None),
    "certain": (judged_rows(sharpness=2000.0), None),
    "blunt": (judged_rows(sharpness=0.01), None),
    "a rare class": ((np.append(np.zeros(999, int), 1), RNG.normal(size=(1000, 2))), None),
}


@pytest.fixture(params=CASES)
def case(request):
    (y, scores), weight = CASES[request.param]
    evaluation = Evaluation().update(y, scores, np.arange(scores.shape[1]), weight)
    return evaluation, y, scores, weight


def test_decisions_as_scikit_learn_judges_them(case):
    evaluation, y, scores, weight = case
    found = scores.argmax(axis=1)
    confusion = metrics.confusion_matrix(y, found, sample_weight=weight)
    np.testing.assert_allclose(evaluation.confusion_matrix, confusion, rtol=1e-12)
    assert evaluation.confusion_matrix.dtype == confusion.dtype
    assert evaluation.accuracy == pytest.approx(metrics.accuracy_score(y, found, sample_weight=weight))
    expected = metrics.precision_recall_fscore_support(y, found, sample_weight=weight, zero_division=0)
    for name, values in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        np.testing.assert_allclose(getattr(evaluation, name), values, rtol=1e-12)


@pytest.mark.slow_cases("25")
@pytest.mark.parametrize(("n_classes", "weighted"), [(2, False), (3, True), (25, False), (25, True)])
def test_top_k_accuracy_is_scikit_learns(n_classes, weighted):
    y, scores = judged_rows(n_rows=2000, n_classes=n_classes)
    weight = RNG.uniform(0, 3, 2000) if weighted else None
    halves = [
        Evaluation().update(
            y[some], scores[some], np.arange(n_classes), weight if weight is None else weight[some]
        )
        for some in (slice(700), slice(700, None))
    ]
    for k in range(1, min(n_classes, 21)):
        target = log_softmax(scores, axis=1)
        expected = metrics.top_k_accuracy_score(
            y, target[:, 1] - target[:, 0] if n_classes == 2 else target, k=k, sample_weight=weight
        )
        assert sum(halves).top_k_accuracy(k) == pytest.approx(expected, rel=1e-12)
    assert sum(halves).top_k_accuracy(1) == pytest.approx(sum(halves).accuracy, rel=1e-12)
    for k in (0, 21, 1.5):
        with pytest.raises(ValueError, match=f"from 1 to 20; got {k}"):
            halves[0].top_k_accuracy(k)


def test_equal_scores_rank_in_the_order_of_classes_and_unknown_classes_never():
    y = ["a", "b", "c", "d"]
    evaluation = Evaluation().update(y, np.zeros((4, 3)), ["a", "b", "c"])
    assert [evaluation.top_k_accuracy(k) for k in (1, 2, 3, 4, 20)] == [0.25, 0.5, 0.75, 0.75, 0.75]


def test_an_evaluation_that_an_older_version_saved_does_not_know_its_ranks():
    old = Evaluation.load("tests/files/format-1-evaluation.parquet")
    for evaluation in (old, Evaluation() + old, Evaluation.from_bytes(old.to_bytes())):
        with pytest.raises(ValueError, match="did not count ranks"):
            evaluation.top_k_accuracy(1)


def test_probabilities_as_scikit_learn_judges_them(case):
    evaluation, y, scores, weight = case
    probabilities = np.exp(log_softmax(scores, axis=1))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    target = probabilities[:, 1] if scores.shape[1] == 2 else probabilities
    brier = metrics.brier_score_loss(y, target, sample_weight=weight)
    assert evaluation.brier_score == pytest.approx(brier, rel=1e-10)
    assert evaluation.log_loss == pytest.approx(
        metrics.log_loss(y, probabilities, sample_weight=weight), rel=1e-10
    )


@pytest.mark.slow_cases("many classes")
def test_areas_are_within_their_errors_of_those_of_scikit_learn(case):
    evaluation, y, scores, weight = case
    odds = log_odds(scores)
    for k in range(scores.shape[1]):
        auc = metrics.roc_auc_score(y == k, odds[:, k], sample_weight=weight)
        assert abs(evaluation.roc_auc[k] - auc) <= evaluation.roc_auc_error[k] + 1e-12
        precision = metrics.average_precision_score(y == k, odds[:, k], sample_weight=weight)
        off = abs(evaluation.average_precision[k] - precision)
        assert off <= evaluation.average_precision_error[k] + 1e-12


@pytest.mark.slow
@given(
    hnp.arrays(np.float64, 12, elements=st.floats(-1, 1, width=16)),
    hnp.arrays(np.bool_, 12),
    hnp.arrays(np.int64, 12, elements=st.integers(1, 3)),
)
def test_areas_of_few_scores_in_few_bins(odds, positive, weight):
    """The bounds hold where they are wide: nearly all the rows share a bin with others."""
    positive[0], positive[1] = True, False
    odds = odds / 50
    binned = ScoreHistogram(most_exact=0).add(odds, positive, weight)
    exact = Evaluation().update(positive, np.outer(odds, [0.0, 1.0]), [False, True], weight)
    auc = metrics.roc_auc_score(positive, odds, sample_weight=weight)
    precision = metrics.average_precision_score(positive, odds, sample_weight=weight)
    for expected, (area, bound) in ((auc, binned.roc_auc()), (precision, binned.average_precision())):
        assert abs(area - expected) <= bound + 1e-12
    assert exact.roc_auc[1] == pytest.approx(auc, abs=1e-12)
    assert exact.average_precision[1] == pytest.approx(precision, abs=1e-12)
    assert (exact.roc_auc_error[1], exact.average_precision_error[1]) == (0, 0)


def counts_flags_and_rounded_values():
    """Small sets by which naive Bayes has log-odds of 10⁹ and more: a feature may be constant in a class."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n_classes, n_features = rng.integers(2, 5), rng.integers(1, 6)
        y = rng.integers(0, n_classes, 300)
        means = rng.uniform(-0.2, 1, (n_classes, n_features))[y]
        yield rng.poisson(np.maximum(means, 0)).astype(float), y
        yield (rng.random((300, n_features)) < means).astype(float), y
        yield np.round(rng.normal(2 * means, 0.3 * (means > 0))), y


@pytest.mark.slow
def test_areas_of_rounded_rows_are_those_of_scikit_learn():
    n_far = 0
    for X, y in counts_flags_and_rounded_values():
        model = GaussianNB().fit(X, y)
        scores = model.predict_joint_log_proba(X)
        odds = log_odds(scores)
        n_far += np.abs(odds).max() > 2**20
        evaluation = evaluate(model, X, y)
        for k in range(len(model.classes_)):
            assert evaluation.roc_auc[k] == pytest.approx(
                metrics.roc_auc_score(y == k, odds[:, k]), abs=0.002
            )
        assert (evaluation.roc_auc_error == 0).all()
    assert n_far > 30


@given(st.integers(0, 2**32), st.floats(1, 1e300))
def test_the_order_of_log_odds_survives_at_any_size(seed, size):
    """Also in bins, where they are several per cent apart."""
    rng = np.random.default_rng(seed)
    odds = size * 1.5 ** rng.integers(-5, 5, 200) * rng.choice([-1, 1], 200)
    positive = rng.random(200) < 0.5
    area, bound = ScoreHistogram(most_exact=0).add(odds, positive, np.ones(200)).roc_auc()
    assert area == pytest.approx(metrics.roc_auc_score(positive, odds), abs=1e-12) or size > 1e9
    assert abs(area - metrics.roc_auc_score(positive, odds)) <= bound + 1e-12


def test_no_digit_is_printed_that_the_bound_does_not_hold():
    y, scores = judged_rows(n_rows=40_000, n_classes=2)
    digits = []
    for size in (1.0, 1e-2, 1e-4):
        evaluation = Evaluation().update(y, size * scores, [0, 1])
        line = str(evaluation).splitlines()[-1].split()
        for name, text in (("roc_auc", line[5]), ("average_precision", line[6])):
            area, bound = evaluation.to_frame().loc[1, [name, f"{name}_error"]]
            shown, *beyond = text.split("±")
            digits.append(len(shown.partition(".")[2]))
            half = 0.5 * 10.0 ** -digits[-1]
            assert beyond or bound <= half
            assert float(shown) == pytest.approx(area, abs=half)
    assert len(set(digits)) > 2


@given(
    st.lists(st.tuples(st.integers(-4, 4), st.booleans(), st.integers(0, 2)), min_size=2, max_size=40),
    st.sampled_from([1e-3, 1.0, 300.0]),
)
@example([(-3, False, 1), (-3, True, 0)], 300.0)
def test_rows_that_rounding_alone_sets_apart_are_in_the_errors(rows, scale):
    """Log-odds that are equal but for their last bits: the areas of the ties are within the errors."""
    odds, member, last_bits = (np.array(column) for column in zip(*rows, strict=True))
    tied = odds * scale
    split = tied + last_bits * np.spacing(np.abs(tied))
    areas, errors = [], []
    for values in (tied, split):
        evaluation = Evaluation().update(member, np.outer(values, [-0.5, 0.5]), [False, True])
        areas.append((evaluation.roc_auc, evaluation.average_precision))
        errors.append((evaluation.roc_auc_error, evaluation.average_precision_error))
    assert not np.any(np.array(errors[0]) > 0)  # without rounding, there is none
    gaps = np.abs(np.subtract(*areas))
    assert not np.any(gaps > np.array(errors[1]) + 1e-15)


def test_errors_of_areas_are_small_where_scores_are_spread():
    (y, scores), _ = CASES["three classes"]
    evaluation = Evaluation().update(y, scores, [0, 1, 2])
    assert evaluation.roc_auc_error.max() < 1e-3
    assert evaluation.average_precision_error.max() < 5e-3


def test_areas_of_20_000_rows_are_exact():
    y, scores = judged_rows(n_rows=20_000, n_classes=10)
    evaluation, odds = Evaluation().update(y, scores, np.arange(10)), log_odds(scores)
    expected = [metrics.average_precision_score(y == k, odds[:, k]) for k in range(10)]
    np.testing.assert_allclose(evaluation.average_precision, expected, rtol=1e-12)
    assert str(evaluation).splitlines()[-1].split()[-1] == f"{expected[-1]:.4f}"
    assert len(evaluation.to_bytes()) < 7e6


@pytest.mark.parametrize("n_classes", [2, 30])
def test_classes_that_come_late_do_not_change_which_areas_are_exact(n_classes):
    """9,000 log-odds are kept for few classes, and binned for many, whichever classes came first."""
    y, scores = judged_rows(n_rows=9000, n_classes=2)
    few = Evaluation().update(y, scores, [0, 1])
    many = Evaluation().update(np.arange(n_classes), 2 * np.eye(n_classes), np.arange(n_classes))
    parts = [Evaluation().update(y[some], scores[some], [0, 1]) for some in (y == 0, y == 1)]
    assert same(few + many, many + few)
    assert same(few + many, parts[0] + many + parts[1])
    assert ((few + many).roc_auc_error[:2] > 0).all() == (n_classes == 30)


def test_curves_are_those_of_scikit_learn_on_binned_scores():
    (y, scores), weight = judged_rows(n_rows=35_000), RNG.uniform(0, 3, 35_000)
    evaluation = Evaluation().update(y, scores, [0, 1, 2], weight)
    binned = np.searchsorted(LOWER_EDGES, log_odds(scores), side="right")
    for k in range(3):
        fpr, tpr, _ = metrics.roc_curve(y == k, binned[:, k], sample_weight=weight, drop_intermediate=False)
        ours = evaluation.roc_curve(k)
        np.testing.assert_allclose(ours[0], fpr, atol=1e-12)
        np.testing.assert_allclose(ours[1], tpr, atol=1e-12)
        assert (np.diff(ours[2]) < 0).all()
        precision, recall, _ = metrics.precision_recall_curve(y == k, binned[:, k], sample_weight=weight)
        ours = evaluation.precision_recall_curve(k)
        np.testing.assert_allclose(ours[0], precision, atol=1e-12)
        np.testing.assert_allclose(ours[1], recall, atol=1e-12)
        assert len(ours[2]) == len(ours[0]) - 1


def test_a_threshold_gives_the_rates_of_its_point():
    y, scores = judged_rows(n_rows=35_000)
    fpr, tpr, thresholds = Evaluation().update(y, scores, [0, 1, 2]).roc_curve(1)
    odds = log_odds(scores)[:, 1]
    for i in range(0, len(thresholds), 50):
        taken = odds >= thresholds[i]
        assert fpr[i] == pytest.approx(taken[y != 1].mean())
        assert tpr[i] == pytest.approx(taken[y == 1].mean())


@pytest.mark.parametrize("name", ["three classes", "two classes", "weighted", "many classes", "sharp"])
def test_calibration_as_scikit_learn_has_it(name):
    (y, scores), weight = CASES[name]
    evaluation = Evaluation().update(y, scores, np.arange(scores.shape[1]), weight)
    probabilities = np.exp(log_softmax(scores, axis=1)).clip(0, 1)
    repeated = np.arange(len(y)) if weight is None else None
    for k in range(scores.shape[1]):
        ours = evaluation.calibration_curve(k)
        if repeated is None:
            bins = np.searchsorted(np.linspace(0, 1, 11)[1:-1], probabilities[:, k])
            shares = [np.average(y[bins == b] == k, weights=weight[bins == b]) for b in np.unique(bins)]
            np.testing.assert_allclose(ours[0], shares, rtol=1e-10)
            continue
        theirs = calibration_curve(y == k, probabilities[:, k], n_bins=10)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


# ---------------------------------------------------------------------- bins


@given(st.floats(-1e5, 1e5))
def test_a_bin_holds_what_lies_between_its_edges(odds):
    histogram = ScoreHistogram(0).add(np.array([odds, odds]), np.array([True, False]), np.array([2.0, 3.0]))
    ((negatives, place), (positives, same)) = np.argwhere(histogram.weights == [[3.0], [2.0]])
    assert (negatives, positives, same, histogram.weights.sum()) == (0, 1, place, 5.0)
    slack = 1e-15 * (1 + abs(odds))  # what 1 + |z| loses
    assert LOWER_EDGES[place] - slack <= odds <= LOWER_EDGES[place + 1] + slack
    assert LOWER_EDGES[place + 1] - LOWER_EDGES[place] <= (1 + abs(odds)) * np.log2(4 + 2 * abs(odds)) / 256


@pytest.mark.parametrize("scale", [1.0, 0.1])  # of numbers that end in the same bits, and in others
def test_as_many_different_log_odds_as_may_be_are_exact(scale):
    odds, weight = scale * (np.arange(60.0) % 20), np.ones(60)
    known, binned = (ScoreHistogram(most).add(odds, odds > scale, weight) for most in (20, 19))
    np.testing.assert_array_equal(known.odds, np.unique(odds))
    assert binned.odds is None
    assert known.weights.sum(axis=1).tolist() == binned.weights.sum(axis=1).tolist() == [6.0, 54.0]


# ---------------------------------------------------------------------- laws


@st.composite
def judged(draw, min_rows=1, max_rows=20):
    labels = np.array(draw(label_sets))
    n_rows = draw(st.integers(min_rows, max_rows))
    codes = draw(hnp.arrays(np.int64, n_rows, elements=st.integers(0, len(labels) - 1)))
    scores = draw(hnp.arrays(np.float64, (n_rows, len(labels)), elements=st.floats(-60, -1, width=16)))
    weight = draw(st.none() | hnp.arrays(np.float64, n_rows, elements=st.sampled_from([0.5, 1.0, 2.0])))
    return labels[codes], scores, labels, weight


def evaluation_of(y, scores, labels, weight, rows=slice(None)):
    return Evaluation().update(y[rows], scores[rows], labels, None if weight is None else weight[rows])


def same(a, b):
    """Whether counts are equal, and what is summed up in float64 equal but for its last digits."""
    assert (a.n_rows, a.n_dropped) == (b.n_rows, b.n_dropped)
    assert np.array_equal(a.classes, b.classes)
    assert a.top_k_accuracy(2) == pytest.approx(b.top_k_accuracy(2), rel=1e-12, nan_ok=True)
    for name in ("confusion_matrix", "roc_auc", "roc_auc_error", "average_precision", "f1"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("log_loss", "brier_score"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-12)
    for label in a.classes:
        np.testing.assert_allclose(a.calibration_curve(label), b.calibration_curve(label), rtol=1e-12)
    return True


class TestLaws(MergeableContract):
    def datasets(self, min_rows=1):
        return judged(min_rows)

    def cut(self, data, rows):
        y, scores, known, weight = data
        return y[rows], scores[rows], known, None if weight is None else weight[rows]

    def of(self, *data):
        return Evaluation().update(*data) if data else Evaluation()

    def copy(self, state):
        return 0 + state

    def assert_agree(self, a, b, data, whole=None):
        assert same(a, b)

    def spoil(self, state, data):
        state.update(*data)
        state.confusion_matrix[...] = 0
        state.roc_auc[...] = 0


@given(judged())
def test_a_class_that_the_model_learns_later_had_probability_zero(rows):
    """Rows judged before a model knew the last class merge with rows judged after."""
    y, scores, labels, weight = rows
    early = y != labels[-1]
    blind = scores.copy()
    blind[early, -1] = -np.inf
    before = evaluation_of(y, scores[:, :-1], labels[:-1], weight, early)
    after = evaluation_of(y, scores, labels, weight, ~early)
    assert same(before + after, evaluation_of(y, blind, labels, weight))
    assert same(after + before, evaluation_of(y, blind, labels, weight))


def test_a_label_that_the_model_does_not_know_counts_as_missed():
    evaluation = Evaluation().update([0, 1, 2, 2], np.tile([3.0, 2.0], (4, 1)), [0, 1])
    assert evaluation.confusion_matrix.tolist() == [[1, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert evaluation.accuracy == 0.25
    assert evaluation.roc_auc[2] == 0.5
    p = 1 / (1 + np.exp(-1.0))
    expected = -(np.log(p) + np.log(1 - p) + 2 * np.log(2.0**-52)) / 4
    assert evaluation.log_loss == pytest.approx(expected)


# ---------------------------------------------------------------------- what a user sees


def test_what_is_printed():
    y, scores = judged_rows(n_rows=1234)
    evaluation = Evaluation().update(np.array(["a", "b", "c"])[y], scores, ["a", "b", "c"])
    printed = str(evaluation)
    assert "1,234 rows, 3 classes" in printed
    assert f"accuracy {evaluation.accuracy:.4f}" in printed
    assert printed.splitlines()[-1].split()[0] == "c"
    assert repr(evaluation) == f"Evaluation(classes=3, rows=1234, accuracy={evaluation.accuracy:.4g})"
    frame = evaluation.to_frame()
    assert frame.index.tolist() == ["a", "b", "c"]
    assert frame["support"].sum() == 1234
    assert frame.loc["b", "roc_auc"] == evaluation.roc_auc[1]


def test_one_of_a_thing_is_in_the_singular_and_many_classes_are_not_all_printed():
    one = Evaluation().update(["a"], np.zeros((1, 1)), ["a"])
    assert str(one).splitlines()[0] == "1 row, 1 class"
    for n_classes, more in ((21, "1 more class"), (30, "10 more classes")):
        y = np.arange(n_classes)
        printed = str(Evaluation().update(y, 2 * np.eye(n_classes), y)).splitlines()
        assert printed[0] == f"{n_classes} rows, {n_classes} classes"
        assert printed[-1] == f"... and {more}"


def test_a_list_of_classes_that_is_cut_ends_in_an_ellipsis():
    for n_classes, end in ((10, "8, 9"), (11, "8, 9, …")):
        y = np.arange(n_classes)
        evaluation = Evaluation().update(y, 2 * np.eye(n_classes), y)
        with pytest.raises(ValueError, match=f"none of the classes: 0, 1, 2, .*{end}$"):
            evaluation.roc_curve(77)


def test_an_evaluation_of_nothing():
    evaluation = Evaluation()
    assert np.isnan([evaluation.accuracy, evaluation.log_loss, evaluation.brier_score]).all()
    assert evaluation.roc_auc.shape == (0,)
    assert "0 rows" in str(evaluation)
    assert evaluation.conformal_quantile(0.9) == -np.inf  # every class is in every set
    assert Evaluation.from_bytes(evaluation.to_bytes()) == evaluation


def test_the_positive_class_is_that_of_curves_and_the_first_in_print():
    y, scores = judged_rows(n_rows=500)
    kinds = np.array(["ant", "bee", "cow"])
    evaluation = Evaluation(pos_label="bee").update(kinds[y], scores, kinds)
    for curve in ("roc_curve", "precision_recall_curve", "calibration_curve"):
        for ours, expected in zip(
            getattr(evaluation, curve)(), getattr(evaluation, curve)("bee"), strict=True
        ):
            np.testing.assert_array_equal(ours, expected)
    assert [line.split()[0] for line in str(evaluation).splitlines()[-3:]] == ["bee", "ant", "cow"]
    unnamed = Evaluation().update(kinds[y], scores, kinds)
    for total in (evaluation + unnamed, unnamed + evaluation, Evaluation.from_bytes(evaluation.to_bytes())):
        assert total.pos_label == total.to_dict()["pos_label"] == "bee"
    with pytest.raises(ValueError, match="None is none of the classes"):
        unnamed.roc_curve()
    unnamed.pos_label = "cow"
    with pytest.raises(ValueError, match="positive classes differ: 'cow' and 'bee'"):
        unnamed + evaluation
    two = Evaluation().update(kinds[y // 2], scores[:, 1:], kinds[:2])
    np.testing.assert_array_equal(two.roc_curve()[1], two.roc_curve("bee")[1])


def test_areas_of_a_class_without_rows_or_rest_are_not_numbers():
    evaluation = Evaluation().update([0, 0], np.zeros((2, 2)), [0, 1])
    assert np.isnan(evaluation.roc_auc).all()
    assert np.isnan(evaluation.average_precision[1])
    assert evaluation.average_precision[0] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], np.zeros((2, 3)), [0, 1]), r"scores have shape \(2, 3\)"),
        (([0, 1, 1], np.zeros((2, 2)), [0, 1]), "y has 3 rows"),
        (([0, 1], np.zeros((2, 2)), [0, 1], [1.0]), r"sample_weight \(1,\)"),
        (([0, 1], np.full((2, 2), np.nan), [0, 1]), "NaN or infinite"),
        (([0, None], np.zeros((2, 2)), [0, 1]), "label is missing"),
        ((["a", "b"], np.zeros((2, 2)), [0, 1]), "different kinds"),
        (([0, 1], np.array([[0.3, 0.7], [1, 0]]), [0, 1]), "are probabilities.*predict_log_proba"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(arguments, message):
    evaluation = Evaluation().update([0, 1], np.zeros((2, 2)), [0, 1])
    before = copy.deepcopy(evaluation)
    with pytest.raises(ValueError, match=message):
        evaluation.update(*arguments)
    assert evaluation == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_refused_in_the_rounding_of_their_type(dtype):
    y, scores = judged_rows(n_rows=200, n_classes=50)
    logs = log_softmax(scores, axis=1)
    with pytest.raises(ValueError, match="they sum to one"):
        Evaluation().update(y, np.exp(logs).astype(dtype), np.arange(50))
    expected = Evaluation().update(y, logs.astype(dtype), np.arange(50)).log_loss
    shifted = Evaluation().update(y, logs + 7, np.arange(50))  # up to a constant for each row
    assert shifted.log_loss == pytest.approx(expected, rel=1e-5)


def test_probabilities_that_are_zero_in_float64_are_told_apart():
    """Log-odds of the likeliest class are worked out where 1 − p has long become 0."""
    gap = np.array([100.0, 800.0, 5000.0])
    evaluation = Evaluation().update([1, 0, 1], np.stack([gap, np.zeros(3)], axis=1), [0, 1])
    assert evaluation.roc_auc[0] == 0.5  # the row of class 0 is between the others
    assert len(evaluation.roc_curve(0)[0]) == 4


# ---------------------------------------------------------------------- kept between processes


@pytest.mark.slow_cases("False-20000", "True-500")
@pytest.mark.parametrize("n_rows", [0, 500, 20_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_saved_evaluation_is_the_same_to_the_last_bit(tmp_path, n_rows, weighted):
    y, scores = judged_rows(n_rows=n_rows)
    kinds, weight = np.array(["ant", "bee", "cow"]), RNG.random(n_rows) if weighted else None
    evaluation = Evaluation().update(kinds[y], scores, kinds, weight)
    path = tmp_path / "evaluation.parquet"
    for _ in range(2):  # the second takes the place of the first
        evaluation.save(path, metadata={"day": 3})
    for back in (Evaluation.load(path), Evaluation.from_bytes(evaluation.to_bytes())):
        assert back == evaluation
        assert str(back) == str(evaluation)
        more, same_again = (one.update(kinds[y], scores[:, ::-1], kinds) for one in (back, 0 + evaluation))
        assert more == same_again
    with pytest.raises(ValueError, match=r"'Evaluation', which Evaluation\.load reads"):
        load(path)
    GaussianNB().fit(np.eye(4), [0, 0, 1, 1]).save(path)
    with pytest.raises(ValueError, match="holds no evaluation: its kind is 'ClassStatistics'"):
        Evaluation.load(path)


def test_plain_values_are_json():
    y, scores = judged_rows(n_rows=100)
    evaluation = Evaluation().update(y, scores, [0, 1, 2])
    told = json.loads(json.dumps(evaluation.to_dict()))
    assert told["confusion_matrix"] == evaluation.confusion_matrix.tolist()
    assert told["accuracy"] == evaluation.accuracy
    assert [of["label"] for of in told["classes"]] == [0, 1, 2]
    assert told["classes"][1]["f1"] == evaluation.f1[1]


def test_decayed_rows_count_by_their_factor():
    (early, early_scores), (late, late_scores) = judged_rows(n_rows=400), judged_rows(n_rows=100)
    decayed = Evaluation().update(early, early_scores, [0, 1, 2]).decay(0.25)
    decayed.update(late, late_scores, [0, 1, 2])
    expected = Evaluation().update(early, early_scores, [0, 1, 2], np.full(400, 0.25))
    expected.update(late, late_scores, [0, 1, 2])
    assert same(decayed, expected)
    for factor in (2, "a"):
        with pytest.raises(ValueError, match="factor must be from 0 to 1"):
            decayed.decay(factor)


def test_areas_of_classes_whose_log_odds_are_all_infinite_are_those_of_chance():
    evaluation = Evaluation().update(["a", "b"], [[0.0], [0.0]], ["a"])
    assert evaluation.roc_auc.tolist() == [0.5, 0.5]
    assert evaluation.roc_auc_error.tolist() == [0.0, 0.0]


def test_calibration_of_all_classes_together_and_without_bins_of_few_rows():
    y = np.arange(3600) % 12
    scores = np.where(y[:, None] == np.arange(12), 2.0, 0.0)
    scores[::50] = 0.0
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    truth = (y[:, None] == np.arange(12)).ravel()
    expected = calibration_curve(truth, probabilities.ravel(), n_bins=10)
    found = Evaluation().update(y, scores, np.arange(12))
    np.testing.assert_allclose(found.mean_calibration_curve(), expected)
    p = np.repeat([0.05, 0.35, 0.95], [40, 4, 15])
    two = Evaluation().update(np.arange(59) % 2, np.log(np.column_stack([1 - p, p])), [0, 1])
    for least, bins in ((0, [0.05, 0.35, 0.95]), (5, [0.05, 0.95]), (99, [0.05])):
        np.testing.assert_allclose(two.calibration_curve(min_weight=least)[1], bins)
    for least in (np.nan, -1):
        with pytest.raises(ValueError, match="min_weight is a weight"):
            two.calibration_curve(min_weight=least)
