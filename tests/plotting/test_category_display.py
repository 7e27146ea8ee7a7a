"""The picture of what categories say about classes."""

import numpy as np
import pandas as pd
import pytest

from streamgda import Categorical, GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from streamgda.plotting import CategoryEffectDisplay, DecisionRegionsDisplay

ROWS = pd.DataFrame(
    {
        "size": np.arange(12.0) % 5,
        "colour": ["red", "red", "blue"] * 4,
        "shape": ["round", "flat", None, "tall"] * 3,
    }
)
KINDS = ["a", "b", "b", "a", "c", "a", "b", "c", "a", "a", "c", "c"]


def test_bars_are_changes_of_log_odds():
    model = GaussianNB(categories="auto").fit(ROWS, KINDS)
    display = CategoryEffectDisplay.from_estimator(model, column="colour")
    assert display.names == ["colour=blue", "colour=red"]
    tables, priors = np.exp(model.category_log_prob_["colour"]), model.priors_
    for k in range(3):
        given = priors * tables[:, 1] / (priors @ tables[:, 1])
        expected = np.log(given[k] / (1 - given[k])) - np.log(priors[k] / (1 - priors[k]))
        assert display.effects[1, k] == pytest.approx(expected)
        assert display.bars_[k][1].get_width() == pytest.approx(expected)
    whole = CategoryEffectDisplay.from_estimator(model, label="b", max_categories=3)
    assert len(whole.names) == 3
    assert whole.classes.tolist() == ["b"]
    assert "shape=(missing)" in CategoryEffectDisplay.from_estimator(model).names


CONDITIONAL = Categorical(["colour", "shape"], model="conditional")
REGIONS = {
    "naive Bayes": GaussianNB(),
    "dummies": LinearDiscriminantAnalysis(),
    "shared slopes": LinearDiscriminantAnalysis(categories=CONDITIONAL),
    "own slopes": QuadraticDiscriminantAnalysis(categories=CONDITIONAL),
}


def many_rows():
    rng = np.random.default_rng(0)
    y, colour, shape = (
        rng.integers(0, 3, 3000),
        rng.choice(["red", "blue", None], 3000),
        rng.choice(["o", "x"], 3000),
    )
    numbers = rng.normal(size=(3000, 3)) + 2 * y[:, None] * [1, 0, 0]
    numbers[:, 1] -= 3 * y * (colour == "red")
    return pd.DataFrame(
        {"a": numbers[:, 0], "colour": colour, "b": numbers[:, 1], "c": numbers[:, 2], "shape": shape}
    ), y


@pytest.mark.slow_cases("-None")
@pytest.mark.parametrize("colour", ["red", None])
@pytest.mark.parametrize("model", REGIONS.values(), ids=REGIONS)
def test_regions_at_fixed_categories_are_what_is_predicted(model, colour):
    rows, y = many_rows()
    model, fixed = model.fit(rows, y), {"shape": "o", "colour": colour, "c": 0.5}
    display = DecisionRegionsDisplay.from_estimator(
        model, rows[:20], y[:20], features=["b", "a"], fixed=fixed, grid_resolution=30
    )
    points = pd.DataFrame({"b": display.xx0.ravel(), "a": display.xx1.ravel(), **fixed})
    np.testing.assert_array_equal(model.predict(points), display.response.ravel())
    assert display.ax_.get_title() == f"c = 0.5, colour = {colour or '(missing)'}, shape = o"


def test_ellipses_at_fixed_categories_are_those_of_the_rows_that_have_them():
    rows, y = many_rows()
    model = REGIONS["own slopes"].fit(rows, y)
    for colour in ("red", "blue"):
        display = DecisionRegionsDisplay.from_estimator(
            model, features=["a", "b"], fixed={"colour": colour, "shape": "x"}, grid_resolution=5
        )
        expected = [[2 * k, -3 * k * (colour == "red")] for k in range(3)]
        np.testing.assert_allclose(display.means, expected, atol=0.2)
        np.testing.assert_allclose(display.covariances, [np.eye(2)] * 3, atol=0.15)


@pytest.mark.parametrize("fixed", [None, {"colour": "red"}, {"colour": "red", "shape": "cube"}])
def test_regions_need_a_category_of_each_column(fixed):
    model = GaussianNB().fit(*many_rows())
    with pytest.raises(ValueError, match=r"a value of '(colour|shape)': fix it at one of '(blue|o)', "):
        DecisionRegionsDisplay.from_estimator(model, features=["a", "b"], fixed=fixed)


@pytest.mark.filterwarnings("ignore::streamgda.DoubtfulModelWarning")  # of few rows
def test_errors_say_what_there_is():
    model = GaussianNB(categories="auto").fit(ROWS, KINDS)
    with pytest.raises(ValueError, match="'size' has no categories"):
        CategoryEffectDisplay.from_estimator(model, column="size")
    dummies = LinearDiscriminantAnalysis(categories="auto").fit(ROWS, KINDS)
    with pytest.raises(AttributeError, match="no probabilities of categories"):
        CategoryEffectDisplay.from_estimator(dummies)
