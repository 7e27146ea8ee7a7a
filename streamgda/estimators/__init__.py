"""The scikit-learn estimators: each finalises statistics in its own way, and shares all the rest.

To add an estimator, write one file and one line:

1. A module with a subclass of `streamgda.estimators.generative.GenerativeClassifier`: `_covariance_type`, the
   statistics that it needs; `__init__`, which stores its parameters; `_finalise`, which makes densities
   (`streamgda.gaussians.densities.Gaussians`) of statistics; `to_sklearn` and `from_sklearn`.
2. Its entry in `ESTIMATORS`.

It is then a name of `streamgda`; it is saved and loaded; it learns from every source; it predicts and is
evaluated out of core; and the command line offers it as ``--model``. (Editors complete its name once it
stands in `streamgda/__init__.py` too.)
"""

from importlib import import_module
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """Where the class of an estimator is, and the value of ``--model`` that stands for it."""

    module: str
    option: str


ESTIMATORS: dict[str, Entry] = {
    "QuadraticDiscriminantAnalysis": Entry("streamgda.estimators.qda", "qda"),
    "LinearDiscriminantAnalysis": Entry("streamgda.estimators.lda", "lda"),
    "GaussianNB": Entry("streamgda.estimators.naive_bayes", "nb"),
}
"""The estimators, by the names of their classes."""


def estimator_named(name: str) -> type[Any]:
    """The class of an estimator.

    Raises
    ------
    KeyError
        If there is none of this name.
    """
    kind: type[Any] = getattr(import_module(ESTIMATORS[name].module), name)
    return kind
