"""Warnings of models that are legal and of little use, from what they have learnt alone.

Thresholds are those of `bench.alarms`: of healthy states, fewer than one in a hundred is warned of.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from streamgda.data.blocks.wording import callers_level, counted, named
from streamgda.models.estimators.scores import Finalised
from streamgda.models.gaussians.components import feature_list, weighted_offsets
from streamgda.models.gaussians.whitening import constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import kind_named

_FEW = 1.5  # rows for each feature
_MANY = 100  # classes of labels that are floats
_LEAST_WITHIN = 1e-14  # variance within the classes, for a variance of their means of 1


class DoubtfulModelWarning(UserWarning):
    """A model may be of little use: it has learnt too few rows, its label as a feature, or a target.

    ``warnings.simplefilter("ignore", DoubtfulModelWarning)`` silences these warnings.
    """


def warn_of_traps(model: Any, state: Finalised[Any]) -> None:
    """Warn of each trap once."""
    if state.gaussians.why_none is not None:
        return
    known = model._traps = model.__dict__.get("_traps", ())
    statistics = model._view(model.statistics_).numbers
    for trap in (_few_rows, _many_classes, _label_as_feature):
        if trap.__name__ not in known and (message := trap(model, state.seen, statistics)):
            model._traps = known = (*known, trap.__name__)
            warnings.warn(message, DoubtfulModelWarning, stacklevel=callers_level())


def _few_rows(model: Any, state: Finalised[Any], statistics: Statistics) -> str:
    """Whether covariances are estimated from hardly more rows than there are features."""
    estimated, d = model.covariances_of, statistics.n_features
    grows = not (model._learnt_whole or model.half_life)  # so that more rows may come
    ways = ("pooling", "shrinkage", "reg_param", "covariance_estimator")
    is_regularised = model.predictive == "student" or any(getattr(model, name, None) for name in ways)
    if not estimated or grows or is_regularised:
        return ""
    rows, counts = statistics.effective_counts, statistics.counts
    if estimated == "all":
        rows, counts = (np.array([each.sum() - len(each) + 1]) for each in (rows, counts))
    forgotten = (rows < 2 * d - 1) & (counts >= 2 * d)  # what is left has less than the weight of d rows
    few = rows < _FEW * d if model._learnt_whole else forgotten
    if estimated == "class":
        few[list(state.densities.singular)] = False  # of which another warning tells
    if not few.any():
        return ""
    k = int(np.flatnonzero(few)[rows[few].argmin()])
    more = f" (and {counted(int(few.sum()) - 1, 'more class')})" if few.sum() > 1 else ""
    whose = "the model" if estimated == "all" else f"class {named(statistics.classes[k])}{more}"
    longer = "a longer half_life, " if model.half_life else ""
    other = "shrinkage='bayes'" if estimated == "all" else "pooling='bayes', shrinkage"
    simpler = "GaussianNB" if estimated == "all" else "LinearDiscriminantAnalysis or GaussianNB"
    return (
        f"{whose} has learnt {rows[k]:.3g} effective rows of {d} features, too few for their covariances: "
        f"probabilities are far too sure. Set {longer}{other}, or use {simpler}"
    )


def _many_classes(model: Any, state: Finalised[Any], statistics: Statistics) -> str:
    """Whether the label is a number that was rounded."""
    if len(state.classes) < _MANY or not model._types.labels.startswith("float"):
        return ""
    return (
        f"the labels are {len(state.classes)} different floats, as of a target that was rounded. Make "
        "classes of ranges, such as by numpy.digitize; or give integers, if these are classes"
    )


def _label_as_feature(model: Any, state: Finalised[Any], statistics: Statistics) -> str:
    """Whether a feature varies within the classes as if it were made of the label."""
    if statistics.reasons:  # of classes that are skipped, which have no moments
        known = np.delete(np.arange(len(statistics.classes)), list(statistics.reasons))
        statistics = statistics.of_classes(known)
    diagonal = kind_named(statistics.covariance_type).diagonal(statistics.scatter)
    within = diagonal.sum(axis=0) / statistics.weights.sum()
    between = np.square(weighted_offsets(statistics)).sum(axis=0)
    made = (within < _LEAST_WITHIN * between) & ~constant_features(within, statistics.means)
    if not made.any():
        return ""
    return (
        f"features hardly vary within the classes beside the distances of these "
        f"({feature_list(statistics, np.flatnonzero(made))}), as if they were made of the label. Leave them "
        "out, unless they are known before the label is"
    )
