"""Ridge regression on the leaves of trees: the forest, the statistics and the model in one read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar, NoReturn, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from streamgda.data.blocks.block import Block
from streamgda.extensions.leaves.counts import LeafCounts
from streamgda.extensions.leaves.features import LeafFeatures
from streamgda.extensions.leaves.rule import LeafRows, is_of_validation
from streamgda.extensions.leaves.solver import LeafRidge
from streamgda.extensions.leaves.state import LeafStatistics
from streamgda.extensions.ridge.calibration import Calibrated, HeldOutScores
from streamgda.extensions.ridge.mapped import (
    MappedRidgeClassifier,
    fitted_to_sample,
    in_one_schema,
    rows_of_map,
)
from streamgda.extensions.ridge.sampled import RowSample
from streamgda.extensions.ridge.scores import LinearScores
from streamgda.models.estimators.moment import at_one_moment, of_one_moment
from streamgda.models.estimators.reading import one_of
from streamgda.models.gaussians.posteriors import order_of
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, kind_named
from streamgda.statistics.kernels import count_pairs
from streamgda.statistics.required import Required
from streamgda.statistics.validation import physical_memory

_ALPHAS = (1_000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
_ALPHAS_OF_FORESTS = (300.0, 30.0, 3.0)  # enough to tell which forest has fewer errors
_USUAL = 3.0
_ROWS_OF_FOREST = 200_000
_ROWS_OF_CHOICE = 20_000  # by which the kind and the size of trees are chosen
_FEW_ROWS = 16  # of which none are judged
_ROWS_OF_LARGE = 50_000  # from which on all trees have a limit, since pairs are many
_BYTES_OF_PAIR = 4 * 12  # a state has 12; adding up and solving take three times as much
_PAIRS_OF_ESTIMATE = 5_000_000
_SCALE = 10.0  # of scores before they are calibrated, as for other features

FORESTS = (LeafFeatures(32, None, "extra"), LeafFeatures(64, 64, max_features="sqrt"), LeafFeatures(8, 6_000))
"""What is tried by default, each on a sample: many random trees, many small ones, and few large ones.

One takes the place of those before it if it has fewer errors by more than a standard deviation of the
difference. By few rows, forests can hardly be told apart, so the first is that which is seldom bad.
"""


class UnseenSample(RowSample):
    """A sample of the rows that the forest never sees."""

    def _draw(self, block: Block) -> None:
        weight = self.weight + float(block.row_weights.sum())
        super()._draw(block.take(np.flatnonzero(is_of_validation(block))))
        self.weight = weight


@dataclass(frozen=True, eq=False)
class LeafScores(LinearScores):
    """Scores of each class: an intercept, and the sum of the slopes at the leaves of a row."""

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """The scores of rows (n, d): (n, K). There are no priors in them: the shares are fitted, too."""
        n_classes = len(self.intercepts)
        scores = np.empty((len(X), n_classes), order=order_of(n_classes)) if out is None else out
        scores[:] = self.intercepts
        for leaves in cast("LeafFeatures", self.features).leaves(X).T:
            scores += self.slopes[leaves]
        return scores

    discriminants = posterior_scores

    def mapped(self, X: Any) -> NoReturn:
        """Rows on a device do not go through trees: ValueError."""
        raise ValueError("rows go through trees on the host alone; convert them to NumPy first")


@dataclass(eq=False, repr=False)
class LeafClassifier(MappedRidgeClassifier):
    """Ridge regression on the leaves of a forest, from one read, in any order.

    A sample of the rows grows a few large trees. Each row is then one leaf of every tree, and what is kept of
    all rows are counts of the leaves and of the pairs of leaves that occur. The ridge regression of the
    classes on the leaves follows from these. Where the boundaries of classes are steps along single features,
    it comes to the errors of boosted trees. Unlike these, it merges; rows can be added, and taken out again
    to the bit; and a class may first appear in any batch.

    The forest is frozen. If rows drift so far that they need other splits, fit it anew: compare the errors on
    new rows with those of a model that has been fitted to them.

    An eighth of the rows, by a hash of their values, never grows the forest. By a sample of these, scored by
    the regression on all other rows, the penalty is chosen and probabilities are calibrated. A search and
    `cross_validate` score these rows alone. Give `calibrate` rows that the forest has not seen, too.

    `fit` draws the sample of the forest from parts that are spread over the data, which takes a part of a
    read; `partial_fit` takes the first batch, so let it have some thousand rows of all kinds. Models merge if
    their forests are equal: fit one `LeafFeatures`, and give it to all of them as
    ``FrozenEstimator(features)``.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        As in `RidgeClassifier`, but "auto" is the one of least error on rows that the forest has not seen,
        next to 3 if several are; 3 if there are none, as for a model made of statistics. Where rows weigh
        less than 1, it is in units of their mean weight.
    features : LeafFeatures or "auto", default="auto"
        As in `RandomFeatureClassifier`, but a forest. "auto" compares few large trees, many extremely
        randomised ones and many small ones on 20,000 rows, and grows the best on at most 200,000.
    calibration : {"auto", "temperature", "softmax"} or None, default="auto"
        As in `RandomFeatureClassifier`. With None no penalty is chosen either: it is 3.
    calibration_rows : int, default=10000
        As in `RandomFeatureClassifier`, of rows that the forest has not seen.
    temperature : float, default=1.0
        As in `QuadraticDiscriminantAnalysis`, for the scores. `calibrate` sets it.
    categories : "auto", Categorical or None, default="auto"
        As in `QuadraticDiscriminantAnalysis`. Each category that occurs in the sample of the forest becomes a
        column of 0 and 1 before the trees.

    Attributes
    ----------
    statistics_ : LeafStatistics
        What the model has learnt of the rows at the leaves, with the forest as its `rule`.
    features_ : LeafFeatures
        The forest.
    alpha_ : float
        The penalty.
    validation_error_, validation_log_loss_ : float
        The share of wrong predictions and the log loss on the sample of rows that the forest has not seen,
        by the regression on all others.
    classes_, n_features_in_, feature_names_in_, coef_, intercept_
        As in `RidgeClassifier`, with coefficients of the leaves.

    References
    ----------
    He et al. (2014), "Practical lessons from predicting clicks on ads at Facebook", ADKDD; Ren, Cao, Wei &
    Sun (2015), "Global refinement of random forest", CVPR.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamgda import LeafClassifier, LeafFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LeafClassifier(features=LeafFeatures(20, kind="extra")).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.93
    True
    """

    _rule = LeafRows
    _kind_of_sample = UnseenSample
    _rows_of_part = _ROWS_OF_FOREST // 16
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MappedRidgeClassifier._parameter_constraints,
        "alpha": [one_of("auto"), Interval(Real, 0, None, closed="left")],
    }
    _of_one_fit = (*MappedRidgeClassifier._of_one_fit, "_saved_alpha")
    _saved_alpha = None  # of a model that was saved without its sample

    alpha: Any = "auto"
    _: KW_ONLY
    calibration_rows: int = 10_000
    max_df: float = field(default=0.5, init=False)

    # ------------------------------------------------------------------ the forest

    def _rule_of(self, blocks: Callable[[], Iterable[Block]], n_rows: float | None) -> LeafRows:
        self._validate_params()
        features, schema = getattr(self.features, "estimator", self.features), None  # of a FrozenEstimator
        some = False
        if not hasattr(features, "n_features_in_"):
            given = in_one_schema(blocks())
            seen = [block.take(np.flatnonzero(~is_of_validation(block))) for block in given]
            some = any(len(block.codes) for block in seen)
            sample = rows_of_map(seen if some else given, _ROWS_OF_FOREST)
            if features == "auto":
                features = chosen_forest(*sample[1:])
            features, schema = fitted_to_sample(features, *sample)
        rule = LeafRows(features, schema)
        rule.leaves_out = some
        if n_rows is not None:
            check_memory(rule, blocks, n_rows)
        return rule

    def typical_row(self) -> Array:
        """A row that the model can score: zeros, (n_features,)."""
        return np.zeros(self._rule_in(self.statistics_).features.n_features_in_)

    def _empty(self, required: Required, rule: Any = None) -> Statistics:
        return super()._empty(required) if rule is None else rule.empty(required)

    # ------------------------------------------------------------------ the regression

    def _finalise(self, statistics: Statistics) -> LeafScores:
        features = self._rule_in(statistics).features
        assert isinstance(statistics, LeafStatistics)
        alpha, calibrated = self._chosen(statistics)
        ridge = LeafRidge(statistics.sums_of_leaves())
        slopes, scale = ridge.slopes(alpha), _SCALE
        intercepts = ridge.intercepts(slopes)
        if calibrated is not None and (softmax := calibrated.softmax) is not None:
            slopes, intercepts, scale = slopes @ softmax.slopes, softmax(intercepts), 1.0
        return LeafScores(
            np.zeros(len(slopes)),
            scale * slopes,
            scale * intercepts,
            scale,
            cast("Any", ridge),
            alpha,
            calibrated,
            features,
        )

    def _chosen(self, statistics: LeafStatistics) -> tuple[float, Calibrated | None]:
        """The penalty, and the calibration, by rows that the forest has not seen."""
        own = self._calibration_for(statistics, cast("Any", None))
        unit = min(1.0, float(statistics.weights.sum()) / statistics.n_rows)  # rows may have been decayed
        usual = unit * _USUAL if self._saved_alpha is None else self._saved_alpha
        usual = usual if isinstance(self.alpha, str) else float(self.alpha)
        if not self._is_sampled(statistics) or not self._sample.samples:
            return usual, own
        X, codes, weights, for_all = self._sample.rows(statistics.classes)
        leaves = self._rule_in(statistics).features.leaves(X)
        others = self._of_others(statistics, leaves, codes, weights)
        if not others.weight:  # all rows are in the sample
            return usual, own
        alphas = [unit * one for one in _ALPHAS] if isinstance(self.alpha, str) else [float(self.alpha)]
        judged = [
            (HeldOutScores(scores, codes, for_all), alpha) for alpha, scores in others.fitted(alphas, leaves)
        ]
        best, alpha = min(
            judged, key=lambda one: (one[0].error(), abs(np.log1p(one[1] / unit) - np.log1p(_USUAL)))
        )
        if own is None and self.calibration is not None:
            own = best.calibrated(statistics.classes, self.calibration).as_softmax()
        return alpha, own

    def _of_others(
        self, statistics: LeafStatistics, leaves: NDArray[np.int32], codes: NDArray[np.intp], weights: Array
    ) -> LeafRidge:
        """The regressions of all rows but some of these leaves; ValueError if they are not among them."""
        sums, firsts = statistics.sums_of_leaves(), self._rule_in(statistics).features.firsts
        part = LeafCounts.of(sums.kind, leaves, firsts, codes, weights, len(sums.weights))
        return LeafRidge(sums.without(part))

    def _fitted_values(
        self, scores: LinearScores, rows: Array, codes: NDArray[np.intp], weights: Array, learnt: bool
    ) -> Array:
        with at_one_moment(self):
            statistics = cast("LeafStatistics", self.statistics_)
            leaves = self._rule_in(statistics).features.leaves(rows)
        of_all = LeafRidge(statistics.sums_of_leaves())
        ridge = self._of_others(statistics, leaves, codes, weights) if learnt else of_all
        if not ridge.weight:
            raise ValueError(
                "these are all the rows that the model has learnt, so no others can score them; give a part "
                "of them, or new rows with learnt=False"
            )
        return ridge.fitted_to(leaves, ridge.slopes(scores.alpha))

    def _no_path(self) -> NoReturn:
        """There is no closed form: AttributeError."""
        raise AttributeError(
            "the regression on leaves is solved step by step, without a criterion for all penalties; "
            "validation_error_ is of rows that the forest has not seen"
        )

    df_ = gcv_ = alphas_ = gcv_path_ = property(_no_path)

    def _beside_statistics(self) -> dict[str, Any]:
        return {**super()._beside_statistics(), "alpha": self.alpha_}

    def _restore(self, document: Mapping[str, Any]) -> None:
        super()._restore(document)
        self._saved_alpha = float(document["alpha"])

    def _plain_params(self) -> dict[str, Any]:
        features, params = getattr(self.features, "estimator", self.features), super()._plain_params()
        return {**params, "features": features.get_params()} if isinstance(features, LeafFeatures) else params

    @classmethod
    def _upgraded(cls, params: dict[str, Any]) -> dict[str, Any]:
        params = super()._upgraded(params)
        saved = params.get("features")
        return {**params, "features": LeafFeatures(**saved)} if isinstance(saved, Mapping) else params

    @property
    @of_one_moment
    def coef_(self) -> Array:
        """Coefficients of the decision function, of the leaves."""
        return super().coef_


def check_memory(rule: LeafRows, blocks: Callable[[], Iterable[Block]], n_rows: float) -> None:
    """Raise MemoryError if the pairs of leaves of so many rows take more memory than the machine has.

    A row has at most as many pairs as there are pairs of trees. If these were too many, a sample tells how
    slowly their number grows with that of rows.
    """
    features, there = rule.features, physical_memory()
    n_trees, n_leaves = len(features.firsts) - 1, np.diff(features.firsts).astype(float)
    of_row = n_trees * (n_trees + 1) / 2
    n_pairs = min(n_rows * of_row, (n_leaves.sum() ** 2 + np.square(n_leaves).sum()) / 2)
    if n_pairs * _BYTES_OF_PAIR <= there:
        return
    X = rows_of_map((block.in_schema(rule.schema) for block in blocks()), _ROWS_OF_CHOICE)[1]
    leaves = features.leaves(X[: max(2, int(_PAIRS_OF_ESTIMATE / of_row))])
    halves = [_n_pairs(leaves[:n], features.firsts) for n in (-(-len(leaves) // 2), len(leaves))]
    grown = halves[1] * (n_rows / len(leaves)) ** np.log2(halves[1] / halves[0])
    if (n_pairs := min(n_pairs, grown)) * _BYTES_OF_PAIR > there:
        raise MemoryError(
            f"{n_rows:,.0f} rows at the leaves of {n_trees:,} trees need about "
            f"{n_pairs * _BYTES_OF_PAIR / 1e9:,.1f} GB for pairs of leaves; this machine has "
            f"{there / 1e9:,.1f} GB. Grow fewer trees, or smaller ones, by n_trees and max_leaves of "
            "LeafFeatures"
        )


def _n_pairs(leaves: NDArray[np.int32], firsts: NDArray[np.int64]) -> int:
    return len(count_pairs(leaves, None, firsts)[1])


def chosen_forest(X: Array, y: Any) -> LeafFeatures:
    """The forest of fewest errors on rows that it has not seen, among `FORESTS`.

    Each is grown on seven eighths of at most 20,000 of these rows, and judged on the others.
    """
    if len(X) < _FEW_ROWS:
        return FORESTS[0]
    some = np.random.RandomState(0).permutation(len(X))[:_ROWS_OF_CHOICE]
    classes, codes = np.unique(y[some], return_inverse=True)
    rows, judged = X[some], np.arange(len(some)) % 8 == 0
    best, are_wrong = FORESTS[-1], np.ones(np.count_nonzero(judged), bool)
    for forest in FORESTS:
        if forest.max_leaves is None and len(X) > _ROWS_OF_LARGE:
            continue
        grown = clone(forest).fit(rows[~judged], codes[~judged])
        leaves, kind = grown.leaves(rows), kind_named("tied")
        sums = LeafCounts.of(kind, leaves[~judged], grown.firsts, codes[~judged], None, len(classes))
        fitted = LeafRidge(sums, grown.transform(rows[~judged])).fitted(_ALPHAS_OF_FORESTS, leaves[judged])
        own = min((scores.argmax(axis=1) != codes[judged] for _, scores in fitted), key=np.count_nonzero)
        n_different = np.count_nonzero(own != are_wrong)
        if np.count_nonzero(are_wrong) - np.count_nonzero(own) > np.sqrt(n_different):
            best, are_wrong = forest, own
    return best
