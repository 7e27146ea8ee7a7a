"""Ridge regression on the leaves of trees: the forest, the statistics and the model in one read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial, reduce
from itertools import islice
from numbers import Real
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.schema import Schema
from streamgda.extensions.leaves.counts import LeafCounts
from streamgda.extensions.leaves.features import LeafFeatures
from streamgda.extensions.leaves.rule import LeafRows
from streamgda.extensions.leaves.solver import LeafRidge
from streamgda.extensions.leaves.state import LeafStatistics
from streamgda.extensions.ridge.calibration import Calibrated, Labelled, Softmax
from streamgda.extensions.ridge.random import RandomFeatureClassifier
from streamgda.extensions.ridge.scores import LinearScores
from streamgda.extensions.subclasses.sampled import keys_of
from streamgda.models.estimators.reading import one_of
from streamgda.models.gaussians.posteriors import order_of
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.rules import RowRule

_ALPHAS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_USUAL_ALPHA = 3.0
_ROWS_OF_FOREST = 200_000
_LAST_OF_VALIDATION = np.uint64(2**61)  # an eighth of the hashes, whose rows the forest does not see
_SCALE = 10.0


@dataclass(frozen=True, eq=False)
class LeafScores(LinearScores):
    """Scores of each class: the sum of the slopes at the leaves of a row, and an intercept."""

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """The scores of rows (n, d): (n, K)."""
        n_classes = len(self.intercepts)
        scores = np.empty((len(X), n_classes), order=order_of(n_classes)) if out is None else out
        scores[:] = self.intercepts
        for leaves in self.features.leaves(X).T:
            scores += self.slopes[leaves]
        return scores

    discriminants = posterior_scores


@dataclass(eq=False, repr=False)
class LeafClassifier(RandomFeatureClassifier):
    """Ridge regression on the leaves of a forest, from one read, in any order."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RandomFeatureClassifier._parameter_constraints,
        "alpha": [one_of("auto"), Interval(Real, 0, None, closed="left")],
        "features": [one_of("auto"), HasMethods("transform")],
    }

    alpha: float | Literal["auto"] = "auto"
    _: KW_ONLY
    calibration_rows: int = 10_000
    products: str = field(default="float64", init=False)
    device: str | None = field(default=None, init=False)
    max_df: float = field(default=0.5, init=False)

    def _rule_of(self, blocks: Callable[[], Iterable[Block]], n_rows: int | None) -> LeafRows:
        self._validate_params()
        features, schema = getattr(self.features, "estimator", self.features), None
        if not isinstance(features, LeafFeatures):
            features = LeafFeatures(8, 6000)
        if not hasattr(features, "n_features_in_"):
            schema, X, y = _rows_of(blocks())
            names = schema.feature_names
            features = clone(features).fit(X if names is None else pd.DataFrame(X, columns=names), y)
        return LeafRows(features, schema)

    @staticmethod
    def _rule_in(statistics: Statistics) -> Any:
        return statistics.rule

    def _empty(self, required: Any, rule: RowRule | None = None) -> Statistics:
        return rule.empty() if rule is not None else super()._empty(required, rule)

    def _finalise(self, statistics: Statistics) -> Any:
        sums = statistics._labelled.moments
        ridge = LeafRidge(sums)
        alpha, calibrated, start = self._validated(statistics, sums)
        slopes = ridge.slopes(alpha, start)
        intercepts, scale = ridge.shares - ridge.mean @ slopes, _SCALE
        if calibrated is not None:
            slopes, intercepts, scale = (
                slopes @ calibrated.softmax.slopes,
                calibrated.softmax(intercepts),
                1.0,
            )
        return LeafScores(
            np.zeros(0),
            scale * slopes,
            scale * intercepts,
            scale,
            None,
            alpha,
            calibrated,
            statistics.rule.features,
        )

    def _validated(self, statistics: Statistics, sums: LeafCounts) -> tuple[float, Calibrated | None, Any]:
        if not self._is_sampled(statistics):
            return (_USUAL_ALPHA if self.alpha == "auto" else self.alpha), None, None
        X, codes, weights = self._sample.rows(statistics.classes)
        leaves = statistics.rule.features.leaves(X)
        own = statistics.rule.empty()
        own.update(X, statistics.classes[codes], weights)
        rest = LeafRidge((statistics - own)._labelled.moments)
        classes = (statistics - own).classes
        start, best = None, None
        for alpha in sorted(_ALPHAS, reverse=True) if self.alpha == "auto" else [self.alpha]:
            start = rest.slopes(alpha, start)
            scores = rest.shares - rest.mean @ start + start[leaves].sum(axis=1)
            labelled = Labelled(scores, codes, weights)
            key = (labelled.error(),)
            if best is None or key < best[0]:
                best = key, alpha, labelled, start
        _, alpha, labelled, start = best
        calibrated = labelled.calibrated(statistics.classes, self.calibration)
        if calibrated.softmax is None:
            n = len(statistics.classes)
            calibrated = replace(
                calibrated, softmax=Softmax(np.eye(n) / calibrated.temperature, np.zeros(n)), temperature=1.0
            )
        return alpha, calibrated, start


def _rows_of(blocks: Iterable[Block]) -> tuple[Schema, Array, Labels]:
    """The schema of some blocks, and the rows from all of them that grow the forest, with their labels."""
    blocks = [block for block in blocks if len(block.codes)]
    schema = reduce(lambda schema, block: schema.union(block.schema), blocks, blocks[0].schema)
    each = -(-_ROWS_OF_FOREST // len(blocks))
    rows, labels = [], []
    for block in blocks:
        block = block.in_schema(schema)
        some = np.flatnonzero(keys_of(block) > _LAST_OF_VALIDATION)
        some = block.take(some[np.unique(np.linspace(0, len(some) - 1, min(each, len(some))).astype(int))])
        rows.append(some.matrix(0, len(some.codes)))
        labels.append(some.classes[some.codes])
    X, y = np.concatenate(rows), np.concatenate(labels)
    complete = np.isfinite(X).all(axis=1)
    return schema, X[complete], y[complete]
