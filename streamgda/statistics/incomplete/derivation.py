"""Groups of incomplete rows with some of their features, or with other labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgda.blocks.labels import Labels
from streamgda.statistics import derivation as of_complete
from streamgda.statistics.covariances import Indices
from streamgda.statistics.derivation import Derivation
from streamgda.statistics.incomplete.groups import Groups, without_features
from streamgda.statistics.incomplete.patterns import (
    Pattern,
    empty_pattern,
    features_in,
    observed_in,
    pattern_of,
    single_pattern,
)
from streamgda.statistics.labelled import Labelled


def selected(groups: Groups[Any], features: Indices, derivation: Derivation[Any]) -> Groups[Any]:
    """The groups of the same rows with some of their features, in this order.

    Rows whose patterns differ in other features alone come together. Of a kind without products, where each
    feature of an incomplete row is by itself, a row stays incomplete even if it lacks none of these.
    """
    together: dict[Pattern, Labelled[Any]] = {}
    counting = groups.counting
    for pattern, group in groups.groups.items():
        part = _of_features(group, pattern, features, groups.n_features, derivation)
        if part.n_features or pattern in counting:
            new = pattern_of(observed_in(pattern, groups.n_features)[features])
            if new in together:
                together[new].merge(part)
            else:
                together[new] = part
    single = groups.groups.get(single_pattern(int(features[0]), groups.n_features))
    if not groups.kind.has_products and len(features) == 1 < groups.n_features and single is not None:
        nothing = empty_pattern(1)  # which counts these rows too, and they are complete now
        together[nothing] = together[nothing].subtract(without_features(single))
    return Groups(groups.sums, len(features), together)


def relabelled(groups: Groups[Any], classes: Labels, derivation: Derivation[Any]) -> Groups[Any]:
    """The groups with another label for each class. Classes of the same label become one."""
    return Groups(
        groups.sums,
        groups.n_features,
        {
            pattern: of_complete.relabelled(
                group, classes[np.searchsorted(groups.classes, group.classes)], derivation
            )
            for pattern, group in groups.groups.items()
        },
    )


def _of_features(
    group: Labelled[Any], pattern: Pattern, features: Indices, n_features: int, derivation: Derivation[Any]
) -> Labelled[Any]:
    """A group with those of some features that it has."""
    own = features_in(pattern, n_features)
    kept = features[np.isin(features, own)]
    if not len(kept):
        return without_features(group.copy())
    sums = derivation.selected(group.sums, np.searchsorted(own, kept))
    return Labelled(group.classes.copy(), group.counts.copy(), sums)
