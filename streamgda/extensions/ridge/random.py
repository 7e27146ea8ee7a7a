"""Ridge regression on random features: the map, the statistics and the model in one read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import HasMethods, Interval

from streamgda.data.blocks.block import Block
from streamgda.extensions.ridge.calibration import Calibrated, HeldOutScores
from streamgda.extensions.ridge.features import RandomFeatures
from streamgda.extensions.ridge.mapped import MappedRidgeClassifier, fitted_to_sample, rows_of_map
from streamgda.extensions.ridge.path import RidgePath, RidgeRegression
from streamgda.extensions.ridge.pytorch import is_there
from streamgda.extensions.ridge.rule import MappedRows
from streamgda.models.estimators.reading import one_of
from streamgda.statistics.base import Statistics
from streamgda.statistics.validation import physical_memory

_FEW_ROWS = 5_000  # for which half as many random features do
_ROWS_OF_MAP = 5_000
_BYTES_OF_PAIR = 4 * 8  # of features, as a fit has up to four matrices in memory
_ROWS_PER_FEATURE = 4  # with fewer, the rounding of products in single precision is seen


@dataclass(eq=False, repr=False)
class RandomFeatureClassifier(MappedRidgeClassifier):
    """Ridge regression on random features of the rows, from one read, in any order.

    A sample of some thousand rows fixes a map, as `RandomFeatures` has it. All rows go through it, and what
    is kept of them are tied statistics, which merge, and from which rows can be taken back. The penalty is
    chosen by generalised cross-validation, and probabilities are calibrated by a sample of the rows, each
    scored by the regression on all others. It makes fewer errors than scikit-learn's HistGradientBoosting on
    many tables; trees do better where the boundaries of classes are steps along single features, and with few
    rows it gains little.

    `fit` draws the sample of the map from parts that are spread over the data, which takes a part of a read;
    `partial_fit` takes the first batch, so let it have some hundred rows of all kinds. Models merge if their
    maps are equal: fit one `RandomFeatures`, and give it to all of them as ``FrozenEstimator(features)``.

    Parameters
    ----------
    alpha : float or "gcv", default="gcv"
        The penalty λ of the squared coefficients. "gcv" is the one of least generalised cross-validation
        error.
    features : int, RandomFeatures or "auto", default="auto"
        How many random features there are, or a map of them: one to be fitted to the sample, or one that has
        been fitted, in scikit-learn's `FrozenEstimator`. "auto" takes 1,000 below 5,000 rows, and 2,000 from
        there on, or if the number of rows is not known. Where rows are many, twice as many make about 15 %
        fewer errors, in four times the memory and eight times the time of a solution; try `LeafClassifier`
        first. A state takes 8 bytes for each pair of features, and half of that in a file: 128 MB at 4,000,
        8.2 GB at 32,000. A fit takes four times as much; if the machine has less, a MemoryError says so
        first.
    max_df : float, default=0.5
        The most degrees of freedom of the regression for each row that "gcv" may choose. Where they are close
        to one for each row, the criterion says nothing.
    products : {"auto", "float32", "float64"}, default="auto"
        In which precision the products of mapped rows are formed; they are added in float64. "float32" takes
        half the time, with an error of a scatter of about 1e-6 of that of all rows, or less. "auto" takes it
        if there are at least four rows for each feature.
    calibration : {"auto", "temperature", "softmax"} or None, default="auto"
        How probabilities are made of scores by a sample of the rows; see `calibrate`. None leaves them as
        they are.
    calibration_rows : int, default=4000
        How many different rows are in this sample, drawn by a hash of their values. Statistics have no
        sample; they have a map, so `products`, `calibration` and this do nothing in `from_statistics`,
        and other `features` are an error.
    device : str, optional
        The device of PyTorch, such as "cuda", on which rows are mapped and multiplied, and regressions are
        solved, in float64. The threads of a read decode the rows and feed it. The model is that of the host
        up to rounding, and the two merge. Rows in NumPy are predicted on the host. On a machine without the
        device, a saved model predicts, and it learns after ``set_params(device=None)``.
    temperature : float, default=1.0
        As in `QuadraticDiscriminantAnalysis`, for the scores. `calibrate` sets it.
    categories : "auto", Categorical or None, default="auto"
        As in `QuadraticDiscriminantAnalysis`. Each category that occurs in the sample of the map becomes a
        column of 0 and 1 before the map.

    Attributes
    ----------
    statistics_ : ClassStatistics
        What the model has learnt of the mapped rows, of covariance type "tied", with the map as its `rule`.
    features_ : RandomFeatures
        The map.
    validation_error_, validation_log_loss_ : float
        The share of wrong predictions and the log loss on the sample, each row of which was scored by the
        regression on all others.
    classes_, n_features_in_, feature_names_in_, alpha_, df_, gcv_, alphas_, gcv_path_, coef_, intercept_
        As in `RidgeClassifier`, with coefficients of the mapped features.

    References
    ----------
    Rahimi & Recht (2008), "Weighted sums of random kitchen sinks: replacing minimization with randomization
    in learning", NIPS; McDonnell, Gong, Parvaneh, Abbasnejad & van den Hengel (2023), "RanPAC: Random
    projections and pre-trained models for continual learning", NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamgda import RandomFeatureClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RandomFeatureClassifier(features=500).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.95, model.validation_error_ < 0.05
    (True, True)
    """

    _rule = MappedRows
    _told_by_statistics = (*MappedRidgeClassifier._told_by_statistics, "device")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MappedRidgeClassifier._parameter_constraints,
        "features": [one_of("auto"), Interval(Integral, 1, None, closed="left"), HasMethods("transform")],
        "products": [one_of("auto", "float32", "float64")],
        "device": [str, None],
    }

    _: KW_ONLY
    products: Literal["auto", "float32", "float64"] = "auto"
    device: str | None = None

    # ------------------------------------------------------------------ the map

    def _rule_of(self, blocks: Callable[[], Iterable[Block]], n_rows: float | None) -> MappedRows:
        """The rule that maps rows, with a map that is fitted to a sample of these, if it is not yet."""
        self._validate_params()
        features, schema = getattr(self.features, "estimator", self.features), None  # of a FrozenEstimator
        if not isinstance(features, RandomFeatures):
            usual = 1_000 if n_rows is not None and n_rows < _FEW_ROWS else 2_000
            features = RandomFeatures(usual if features == "auto" else int(features))
        _check_memory(features.n_components)
        if not hasattr(features, "n_features_in_"):
            features, schema = fitted_to_sample(features, *rows_of_map(blocks(), _ROWS_OF_MAP))
        products = self.products
        if products == "auto":
            enough = n_rows is not None and n_rows >= _ROWS_PER_FEATURE * features.n_outputs
            products = "float32" if enough else "float64"
        return MappedRows(features, schema, products=products, device=self.device)

    def _path(self, statistics: Statistics) -> RidgePath:
        single = self._rule_in(statistics).products == "float32"
        device = self.device if self.device is not None and is_there(self.device) else None
        rounding = 2.0**-24 if single else 2.0**-52
        return RidgePath.of(statistics, scale=True, rounding=rounding, device=device)

    def _known_rule(self) -> MappedRows:
        rule: MappedRows = super()._known_rule()
        rule.set_device(self.device)
        return rule

    # ------------------------------------------------------------------ calibration

    def _calibration_for(self, statistics: Statistics, regression: RidgeRegression) -> Calibrated | None:
        own = super()._calibration_for(statistics, regression)
        if own is not None or self.calibration is None or not self._is_sampled(statistics):
            return own
        X, codes, weights, for_all = self._sample.rows(statistics.classes)
        fitted = regression.left_out(self._rule_in(statistics).features.transformed(X), codes, weights)
        scores = HeldOutScores(fitted, codes, for_all)
        return scores.calibrated(statistics.classes, self.calibration).as_softmax()

    # ------------------------------------------------------------------ exchange

    def _plain_params(self) -> dict[str, Any]:
        features = getattr(self.features, "estimator", self.features)
        params = super()._plain_params()
        if isinstance(features, RandomFeatures):
            params["features"] = {**features.get_params(), "bandwidth": list(features._widths)}
        return params

    @classmethod
    def _upgraded(cls, params: dict[str, Any]) -> dict[str, Any]:
        params = super()._upgraded(params)
        if isinstance(saved := params.get("features"), Mapping):
            params["features"] = RandomFeatures(**{**saved, "bandwidth": tuple(saved["bandwidth"])})
        return params


def _check_memory(n_features: int) -> None:
    """Raise MemoryError if a fit with so many features takes more memory than the machine has."""
    there = physical_memory()
    state, needed = (one * n_features**2 / 1e9 for one in (8, _BYTES_OF_PAIR))
    if needed * 1e9 > there:
        raise MemoryError(
            f"{n_features:,} features need about {needed:,.1f} GB: {state:,.1f} GB for a state, and three "
            f"times as much to add states up and to solve; this machine has {there / 1e9:,.1f} GB. Set "
            f"features={math.isqrt(int(there) // _BYTES_OF_PAIR):_} or less"
        )
