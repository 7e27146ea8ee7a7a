"""Prediction sets in a stream, whose level moves as that of Gibbs & Candès (2021)."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from streamgda import (
    AdaptiveConformalInference,
    Evaluation,
    GaussianNB,
    LinearDiscriminantAnalysis,
    from_bytes,
    load_metadata,
    progressive_score,
)

RNG = np.random.default_rng(0)
LABELS = np.array(["ant", "bee", "cat"])
CODES = RNG.integers(0, 3, 3000)
Y = LABELS[CODES]
X = RNG.normal(size=(3000, 2)) + 1.5 * CODES[:, None] + np.linspace(0, 3, 3000)[:, None]
WEIGHTS = RNG.integers(0, 4, 3000) / 2
SETS = RNG.random((3000, 3)) < 0.9


def stream(size=150, weighted=False):
    parts = [slice(start, start + size) for start in range(0, len(Y), size)]
    return [(X[rows], Y[rows], *([WEIGHTS[rows]] if weighted else [])) for rows in parts]


@pytest.mark.parametrize("by", ["all", "class"])
@pytest.mark.parametrize(("half_life", "weighted"), [(None, True), (400, False)])
def test_a_score_is_that_of_a_loop_of_ones_own(by, half_life, weighted):
    """The loop keeps the level beside the model, and after each batch goes on from what it has saved."""
    found = AdaptiveConformalInference(0.9, by=by)
    options = {"half_life": half_life, "coverage": found}
    points = progressive_score(GaussianNB(), stream(weighted=weighted), step=1, **options)
    model, adaptive, judged = GaussianNB(), AdaptiveConformalInference(0.9, by=by), Evaluation()
    held, sizes, weight, coverages = 0.0, 0.0, 0.0, []
    for number, (rows, labels, *weights) in enumerate(stream(weighted=weighted)):
        if number:
            sets = model.predict_set(rows, adaptive.quantile(judged, model.classes_))
            judged.decay(0.5 ** (150 / half_life) if half_life else 1)
            judged.update(labels, model.predict_log_proba(rows), model.classes_, *weights)
            adaptive.update(labels, sets, model.classes_, *weights)
            w = weights[0] if weights else np.ones(150)
            fade = 0.5 ** (150 / half_life) if half_life else 0.0
            held = held * fade + w @ (sets & (labels[:, None] == model.classes_)).any(axis=1)
            sizes, weight = sizes * fade + w @ sets.sum(axis=1), weight * fade + w.sum()
            coverages.append((held / weight, sizes / weight))
        model.partial_fit(rows, labels, sample_weight=weights[0] if weights else None)
        content = model.to_bytes(metadata={"sets": adaptive.to_dict()})
        model = from_bytes(content)
        adaptive = AdaptiveConformalInference(**load_metadata(content)["metadata"]["sets"])
    np.testing.assert_allclose([(point.coverage, point.mean_set_size) for point in points], coverages)
    assert found == adaptive
    assert 0.8 < points[-1].coverage < 1


@pytest.mark.parametrize("labels", [LABELS, np.array([-1, 0, 7]), np.array([False, True])])
@pytest.mark.parametrize("by", ["all", "class"])
def test_the_level_is_that_of_the_paper_row_by_row_and_plain_data_keep_it(labels, by):
    truth, sets = labels[CODES[:200] % len(labels)], SETS[:200, : len(labels)]
    exact, target, gamma = {}, Fraction(0.9), Fraction(0.005)
    adaptive = AdaptiveConformalInference(by=by)
    for i, label in enumerate(truth):
        order = slice(None, None, (-1) ** i)  # in which the classes come
        adaptive.update([label], sets[i : i + 1, order], labels[order])
        key = label.item() if by == "class" else "all"
        error = 0 if sets[i, np.flatnonzero(labels == label)[0]] else 1
        exact[key] = exact.get(key, 1 - target) + gamma * (1 - target - error)
        adaptive = AdaptiveConformalInference(**adaptive.to_dict())
    level = adaptive.level if by == "class" else {"all": adaptive.level}
    assert {type(key) for key in level} == {type(key) for key in exact}
    assert level == pytest.approx({key: float(1 - alpha) for key, alpha in exact.items()}, abs=1e-13)


def test_a_batch_is_one_step_as_long_as_those_of_its_rows():
    held = SETS[:200, 0]
    for weights, n_rows in ((None, 200), (np.full(200, 1e-150), 200), (np.repeat([3.0, 0], 100), 100)):
        moved = AdaptiveConformalInference(0.9).update(np.zeros(200, int), SETS[:200], [0, 1, 2], weights)
        share = np.average(held, weights=None if weights is None else weights / weights.max())
        assert moved.level == pytest.approx(0.9 + (1 - 0.995**n_rows) * (0.9 - share), rel=1e-9)


@pytest.mark.parametrize("by", ["all", "class"])
def test_what_says_nothing_moves_nothing(by):
    rows = (Y[:50], SETS[:50], LABELS)
    plain = AdaptiveConformalInference(by=by).update(*rows)
    for missing in (None, np.nan, pd.NA):
        more = [*Y[:50].tolist(), missing, "bee", "wasp"]
        sets = np.vstack([SETS[:50], np.zeros((3, 3), bool)])
        weights = np.append(np.ones(50), [1, 0, 0])
        found = AdaptiveConformalInference(by=by).update(more, sets, LABELS, weights)
        found.update([], np.zeros((0, 3), bool), LABELS).update([missing], sets[-1:], LABELS)
        assert found == plain
    batches = [batch for each in stream() for batch in (each, (X[:0], Y[:0]), (*each, np.zeros(150)))]
    one, other = AdaptiveConformalInference(by=by), AdaptiveConformalInference(by=by)
    score = progressive_score(GaussianNB(), batches, coverage=one)
    assert score.coverage == progressive_score(GaussianNB(), stream(), coverage=other).coverage
    assert one == other


def test_a_label_that_is_no_class_is_not_covered_and_full_sets_grow_no_further():
    adaptive = AdaptiveConformalInference().update(["wasp"], [[True] * 3], LABELS)
    assert adaptive.level == pytest.approx(0.9 + 0.005 * 0.9)
    for _ in range(100):
        adaptive.update(["wasp"] * 50, np.ones((50, 3), bool), LABELS)
    assert 1 < adaptive.level < 1.9
    assert adaptive.quantile(Evaluation().update(CODES, np.log(SETS + 0.5), [0, 1, 2])) == -np.inf
    evaluation = progressive_score(
        LinearDiscriminantAnalysis(), [(X[:300], Y[:300]), (X[300:400], ["wasp"] * 100)], coverage=0.9
    )
    assert (evaluation.coverage, evaluation.mean_set_size) == (0, 3)
    np.testing.assert_array_equal(evaluation.class_coverage, [np.nan, np.nan, np.nan, 0])


def test_by_class_each_has_its_quantile_and_a_class_not_judged_is_in_each_set():
    evaluation = Evaluation().update(CODES, np.log(RNG.random((3000, 3))), [0, 1, 2])
    adaptive = AdaptiveConformalInference(by="class", level={0: 0.7, 1: 1.0, 2: 0.0})
    expected = evaluation.conformal_quantile(0.7, by="class")[0]
    np.testing.assert_array_equal(adaptive.quantile(evaluation), [expected, -np.inf, np.inf])
    np.testing.assert_array_equal(adaptive.quantile(evaluation, [5, 0]), [-np.inf, expected])
    np.testing.assert_array_equal(
        evaluation.conformal_quantile([0.7, 0.8, 0.9], by="class"),
        [evaluation.conformal_quantile(level, by="class")[k] for k, level in enumerate((0.7, 0.8, 0.9))],
    )


def test_evaluations_add_up_their_sets_and_keep_them():
    points = progressive_score(GaussianNB(), stream(), step=600, coverage=0.8)
    whole = progressive_score(GaussianNB(), stream(), coverage=0.8)
    for read in (sum(points), Evaluation.from_bytes(sum(points).to_bytes()), sum(points).decay(0.5)):
        assert read.coverage == pytest.approx(whole.coverage)
        assert read.mean_set_size == pytest.approx(whole.mean_set_size)
        np.testing.assert_allclose(read.class_coverage, whole.class_coverage)
    assert f"coverage {whole.coverage:.4f}" in str(whole)
    assert whole.to_dict()["coverage"] == whole.coverage
    without = progressive_score(GaussianNB(), stream())
    assert np.isnan([without.coverage, without.mean_set_size, *without.class_coverage]).all()
    assert "coverage" not in str(without)
    assert "coverage" not in without.to_dict()


@pytest.mark.parametrize("step", ["sudden", "slow"])
def test_sets_keep_their_coverage_where_a_fixed_quantile_does_not(step):
    rng = np.random.default_rng(1)
    move = np.clip(np.arange(80) / 80 - 0.3, 0, 1) if step == "slow" else (np.arange(80) > 40) * 1.0
    adaptive, judged, fixed, held = AdaptiveConformalInference(0.9), Evaluation(), [], []
    judged.update(np.zeros(1000, int), np.outer(rng.normal(size=1000), [1, 0]), [0, 1])
    first = judged.conformal_quantile(0.9)
    for shift in 2 * move:
        odds = rng.normal(size=(100, 1)) - shift
        sets = odds >= adaptive.quantile(judged)
        held.append(sets.mean())
        fixed.append((odds >= first).mean())
        adaptive.update(np.zeros(100, int), sets, [0])
        judged.update(np.zeros(100, int), odds * [1, 0], [0, 1])
    assert np.mean(fixed[40:]) < 0.7
    assert np.mean(held[40:]) > 0.88
    assert np.quantile(held[45:], 0.1) > 0.75


def test_bad_input_is_named():
    for wrong, match in (
        ({"coverage": 90}, "coverage is a number between 0 and 1; got 90"),
        ({"gamma": "fast"}, "gamma is a number between 0 and 1; got 'fast'"),
        ({"by": "label"}, "by is 'all' or 'class'"),
        ({"level": np.inf}, "level is a finite number if by='all'"),
        ({"level": {"ant": 0.9}}, "level is a finite number if by='all'"),
        ({"by": "class", "level": 0.9}, "level is pairs of a label and a level if by='class'"),
        ({"by": "class", "level": {"ant": None}}, "level is pairs of a label and a level if by='class'"),
    ):
        with pytest.raises(ValueError, match=match):
            AdaptiveConformalInference(**wrong)
    for y, sets, classes, match in (
        (Y[:4], SETS[:3], LABELS, "y has 4 rows and classes has 3 labels; sets are booleans of that shape"),
        (Y[:3], SETS[:3] * 1.0, LABELS, "sets are booleans of that shape.* dtype float64"),
        (Y[:3], SETS[:3], ["ant", "bee", "ant"], "class ant stands twice"),
        (CODES[:3], SETS[:3], LABELS, "kind"),
    ):
        adaptive = AdaptiveConformalInference()
        with pytest.raises((TypeError, ValueError), match=match):
            adaptive.update(y, sets, classes)
        assert adaptive == AdaptiveConformalInference()
    with pytest.raises(ValueError, match="row 1 has weight nan"):
        AdaptiveConformalInference().update(Y[:2], SETS[:2], LABELS, [1, np.nan])
    with pytest.raises(ValueError, match="coverage is a number between 0 and 1; got 1.5"):
        progressive_score(GaussianNB(), stream(), coverage=1.5)
