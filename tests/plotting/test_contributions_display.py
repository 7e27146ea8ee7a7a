"""Pictures of contributions, whose bars and points are the contributions."""

import numpy as np
import pandas as pd
import pytest

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from streamgda.plotting import ContributionsDisplay

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, 120)
ROWS = pd.DataFrame(RNG.normal(size=(120, 3)) + CODES[:, None], columns=list("abc")).assign(
    colour=RNG.choice(["red", "blue"], 120),
    day=pd.Timestamp("2026-01-01") + pd.to_timedelta(RNG.integers(0, 9, 120), "D"),
)
KINDS = np.array(["ant", "bee", "cow"])[CODES]


def test_a_waterfall_leads_from_the_base_to_the_log_odds():
    model, row = GaussianNB().fit(ROWS, KINDS), ROWS[5:6]
    logs = np.sort(model.predict_log_proba(row)[0])
    display = ContributionsDisplay.from_estimator(model, row, max_columns=2)
    (values,), (base,) = model.contributions(row)
    order = np.argsort(-abs(values))
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, [*values[order[:2]], values[order[2:]].sum()])
    assert display.bars_[0].get_x() == pytest.approx(base)
    assert display.bars_[2].get_x() + widths[2] == pytest.approx(logs[-1] - logs[-2])
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert [names[0], *names[3:]] == [
        f"base: {base:.3g}", "3 other columns", f"log-odds: {logs[-1] - logs[-2]:.3g}"
    ]  # fmt: skip
    whole = ContributionsDisplay.from_estimator(model, row, label="ant")
    names = {text.get_text() for text in whole.ax_.get_yticklabels()}
    told = (
        f"a = {row['a'].item():.4g}",
        f"colour = {row['colour'].item()}",
        f"day = {row['day'].item():%Y-%m-%d}",
    )
    assert names.issuperset(told)
    assert whole.ax_.get_xlabel().startswith("log-odds of ant against ")


@pytest.mark.parametrize("label", [None, "bee"])
def test_a_summary_has_a_point_for_each_row_and_column(label):
    two = CODES < 2 + (label is not None)
    model = LinearDiscriminantAnalysis().fit(ROWS[two], KINDS[two])
    display = ContributionsDisplay.from_estimator(
        model, ROWS[two], kind="summary", label=label, max_columns=4
    )
    values, _ = model.contributions(ROWS[two], "bee", None if label else "ant")
    order = np.argsort(-abs(values).mean(axis=0))[:4]
    for j, points in zip(order, display.ax_.collections, strict=True):
        np.testing.assert_allclose(points.get_offsets()[:, 0], values[:, j])
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == [display.names[j] for j in order]


def test_lists_are_one_column_and_errors_say_what_to_give():
    lists = pd.DataFrame({"emb": ROWS[["a", "b"]].to_numpy().tolist(), "c": ROWS["c"]})
    model = QuadraticDiscriminantAnalysis().fit(lists, KINDS)
    display = ContributionsDisplay.from_estimator(model, lists[:1])
    assert (display.names, display.values.shape, display.data[0]) == (["emb", "c"], (1, 2), None)
    with pytest.raises(ValueError, match="a waterfall is of one row; got 2"):
        ContributionsDisplay.from_estimator(model, lists[:2])
    with pytest.raises(ValueError, match="a summary of 3 classes is of one of them; give label="):
        ContributionsDisplay.from_estimator(model, lists, kind="summary")
