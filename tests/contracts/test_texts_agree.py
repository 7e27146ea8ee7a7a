"""What readers of two classes learn of one parameter is the same, or is said as a difference."""

import re
from inspect import getdoc

import pytest

from streamgda.models.estimators import ESTIMATORS, estimator_named

docscrape = pytest.importorskip("numpydoc.docscrape")

REFERENCE = "QuadraticDiscriminantAnalysis"


def texts():
    """The text of each parameter in each class that documents it."""
    found = {}
    for name in ESTIMATORS:
        for parameter in docscrape.NumpyDocString(getdoc(estimator_named(name)))["Parameters"]:
            found.setdefault(parameter.name, {})[name] = " ".join(parameter.desc)
    return found


@pytest.mark.parametrize(("parameter", "by_class"), texts().items())
def test_a_parameter_has_one_text_or_one_that_refers_to_another(parameter, by_class):
    named = {name: re.match(r"As in `(\w+)`", text) for name, text in by_class.items()}
    referring = {name: match[1] for name, match in named.items() if match}
    assert REFERENCE not in referring
    assert set(referring.values()) <= set(by_class) - set(referring), f"they have no {parameter}"
    assert len({text for name, text in by_class.items() if name not in referring}) == 1
