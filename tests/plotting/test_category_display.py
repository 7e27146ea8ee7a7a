"""The picture of what categories say about classes."""

import numpy as np
import pandas as pd
import pytest

from streamgda import GaussianNB, LinearDiscriminantAnalysis
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


def test_errors_say_what_there_is():
    model = GaussianNB(categories="auto").fit(ROWS, KINDS)
    with pytest.raises(ValueError, match="'size' has no categories"):
        CategoryEffectDisplay.from_estimator(model, column="size")
    dummies = LinearDiscriminantAnalysis(categories="auto").fit(ROWS, KINDS)
    with pytest.raises(ValueError, match="regions are drawn of models of numbers"):
        DecisionRegionsDisplay.from_estimator(model)
    with pytest.raises(AttributeError, match="no probabilities of categories"):
        CategoryEffectDisplay.from_estimator(dummies)
