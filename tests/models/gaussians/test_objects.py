"""Densities as objects: they compare by identity, and their pickles hold no statistics."""

import pickle
import warnings

import numpy as np
import pytest

from streamgda import QuadraticDiscriminantAnalysis
from streamgda.models.estimators.classifier import finalised
from tests.strategies import MODELS

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(400, 30)), np.repeat(np.arange(8), 50)


@pytest.mark.parametrize("predictive", ["plugin", "student"])
@pytest.mark.parametrize("kind", MODELS, ids=lambda k: k.__name__)
def test_densities_compare_and_have_a_hash(kind, predictive):
    one, other = (finalised(kind(predictive=predictive).fit(X, Y)).densities for _ in range(2))
    assert one in [one]
    assert one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize("predictive", ["plugin", "student"])
def test_a_singular_class_does_not_carry_the_statistics_along(predictive):
    model = QuadraticDiscriminantAnalysis(predictive=predictive, singular="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        sizes = [len(pickle.dumps(finalised(model.fit(X[:n], Y[:n])))) for n in (400, 352)]
    assert sizes[1] < sizes[0]
    state = pickle.loads(pickle.dumps(finalised(model)))
    assert isinstance(state.singular[0][1](), np.linalg.LinAlgError)
