"""Random features: cosines or hinges of random projections of standardised inputs."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from itertools import accumulate, pairwise
from operator import index
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.externals.array_api_compat import array_namespace
from sklearn.linear_model import Ridge
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from streamgda.data.blocks.block import FILL_IN
from streamgda.extensions.ridge.array_api import FARTHEST, mapped
from streamgda.models.estimators.libraries import in_numpy, lies_elsewhere
from streamgda.statistics.kernels import Singles, map_angles
from streamgda.statistics.kernels.blas import single_blas_thread
from streamgda.statistics.kernels.threads import in_threads
from streamgda.statistics.validation import check_whole

Array = NDArray[np.float64]


_MOST_QUANTILES = 257
_ROWS_TOGETHER = 256  # of which the inputs, and the outputs of some thousand features, stay in the cache
_ROWS_OF_DISTANCES = 1_000
_ROWS_OF_METRIC = 5_000
_FEATURES_OF_METRIC = 1_000
_PENALTY = 0.002  # of a row


class RandomFeatures(TransformerMixin, BaseEstimator):
    """Random features, in which a linear model approximates one with a kernel.

    A sample of the rows fixes the map. It then takes each row by itself: the columns are standardised, and
    beside them may stand their ranks in the sample. Of these inputs z the random features are cos(z W + b) or
    max(0, z W + b). States and models whose rows went through equal maps add up.

    Parameters
    ----------
    n_components : int, default=2000
        How many random features are made.
    kind : {"fourier", "relu"}, default="fourier"
        Cosines, whose products approximate Gaussian kernels, or hinges.
    bandwidth : float or sequence of float, default=(0.25, 0.5, 1)
        The widths f of the kernels, in units of the median distance of two rows of the sample; the random
        features take them in turn. The entries of W are normal, with deviation 1 / (f × median distance).
    scale : {"rank", "std", "common"}, default="rank"
        What the inputs are. "std": columns less their mean, divided by their deviation, and at most 6 from 0.
        "rank": these, and beside them the ranks of the columns with more than two values, by at most 257
        quantiles of the sample, with mean 0 and deviation 1. "common": as "std", with one deviation for all
        columns, for pixels and embeddings.
    metric : {None, "diag"}, default=None
        "diag" weighs the inputs in z W by how much the class depends on them: by the root of the mean square
        of the gradient of a ridge regression on random features. It needs the labels `y` of the sample.
    include_inputs : bool, default=True
        Whether the inputs stand beside the random features, as the first ones.
    random_state : int, RandomState instance or None, default=0
        The seed of W and b.

    Attributes
    ----------
    n_features_in_ : int
        How many columns the sample had.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if they had any.
    mean_, factor_ : ndarray of shape (`n_features_in_`,)
        What is subtracted from a column, and the factor that it is then multiplied by: 0 if it is constant.
    median_distance_ : float
        Of the inputs of two rows, after `metric_`.
    metric_ : ndarray of shape (n_inputs,)
        The factor of each input.
    frequencies_, offsets_ : ndarray of shapes (n_inputs, n_components), (n_components,)
        W and b, rounded to float32.

    References
    ----------
    Rahimi & Recht (2007), "Random features for large-scale kernel machines"; (2008), "Weighted sums of random
    kitchen sinks". Radhakrishnan, Beaglehole, Pandit & Belkin (2024), "Mechanism for feature learning in
    neural networks and backpropagation-free machine learning models", of the average gradient outer product.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from streamgda import RandomFeatures
    >>> X, y = load_iris(return_X_y=True)
    >>> features = RandomFeatures(100).fit(X[::3])
    >>> features.transform(X).shape
    (150, 108)
    >>> features.get_feature_names_out()[[0, 4, 8]].tolist()
    ['x0', 'rank(x0)', 'fourier0']
    >>> RidgeClassifier().fit(features.transform(X), y).score(features.transform(X), y)
    0.98
    """

    _choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "kind": ("fourier", "relu"),
        "scale": ("rank", "std", "common"),
        "metric": (None, "diag"),
    }

    def __init__(
        self,
        n_components: int = 2000,
        kind: Literal["fourier", "relu"] = "fourier",
        bandwidth: float | tuple[float, ...] = (0.25, 0.5, 1),
        scale: Literal["rank", "std", "common"] = "rank",
        metric: Literal["diag"] | None = None,
        include_inputs: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.kind = kind
        self.bandwidth = bandwidth
        self.scale = scale
        self.metric = metric
        self.include_inputs = include_inputs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        tags.target_tags.required = self.metric is not None
        return tags

    # ------------------------------------------------------------------ the map is fixed

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fix the map by a sample of rows; some hundred are enough.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The sample.
        y : array-like of shape (n_rows,), optional
            Its labels, for a `metric`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a parameter is not valid, or labels are needed and not there.
        """
        self._check_parameters()
        rows = np.asarray(validate_data(self, X, ensure_all_finite=False), np.float64)
        self._refuse_missing(rows)
        is_whole = isinstance(self.random_state, int | np.integer)
        self.seed_ = int(
            self.random_state if is_whole else check_random_state(self.random_state).randint(2**31)
        )
        self._fit_inputs(rows)
        inputs = np.empty((len(rows), self._n_inputs), np.float32)
        self._write_inputs(rows, inputs)
        chosen = np.random.RandomState(self.seed_).permutation(len(rows))
        self.metric_ = np.ones(self._n_inputs)
        if self.metric is not None:
            if y is None:
                raise ValueError(f"metric={self.metric!r} requires y to be passed, but the target y is None")
            check_consistent_length(rows, y)
            some = chosen[:_ROWS_OF_METRIC]
            with single_blas_thread():
                self.metric_ = _metric(inputs[some], np.asarray(y)[some], self._widths, self.seed_)
        self.median_distance_ = _median_distance(inputs[chosen[:_ROWS_OF_DISTANCES]] * self.metric_)
        self._draw()
        return self

    def _check_parameters(self) -> None:
        check_whole(self.n_components, "n_components", 1)
        for name, choices in self._choices.items():
            if getattr(self, name) not in choices:
                known = " or ".join(map(repr, choices))
                raise ValueError(f"{name} must be {known}; got {getattr(self, name)!r}")
        if not len(self._widths) or not (self._widths > 0).all():
            raise ValueError(f"bandwidth holds positive numbers; got {self.bandwidth!r}")

    @property
    def _widths(self) -> Array:
        return np.atleast_1d(np.asarray(self.bandwidth, np.float64))

    @property
    def _n_inputs(self) -> int:
        return len(self.mean_) + len(self._ranks)

    @property
    def n_outputs(self) -> int:
        """How many features the fitted map makes."""
        return int(self.n_components) + self._n_inputs * bool(self.include_inputs)

    def _fit_inputs(self, rows: Array) -> None:
        """Fix what is taken of each column."""
        deviations = np.where(rows.max(axis=0) > rows.min(axis=0), rows.std(axis=0), 0.0)
        if self.scale == "common":
            deviations[:] = np.sqrt(np.mean(deviations**2))
        self.mean_ = rows.mean(axis=0)
        self.factor_ = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
        self._ranks: list[tuple[int, Array, Array]] = []
        if self.scale == "rank":
            shares = np.linspace(0, 1, min(_MOST_QUANTILES, len(rows)))
            for j, column in enumerate(np.quantile(rows, shares, axis=0).T):
                knots, first, n = np.unique(column, return_index=True, return_counts=True)
                if len(knots) > 2:  # else the ranks are a multiple of the column
                    middle = (shares[first] + shares[first + n - 1]) / 2
                    self._ranks.append((j, knots, (middle - 0.5) * np.sqrt(12)))

    def _draw(self) -> None:
        """Draw W and b by the seed."""
        rng = np.random.RandomState(self.seed_)
        self.frequencies_ = _frequencies(
            rng, self.metric_ / self.median_distance_, self._widths, self.n_components
        )
        offsets = rng.uniform(0, 2 * np.pi, self.n_components)
        self.offsets_ = (offsets if self.kind == "fourier" else np.cos(offsets)).astype(np.float32)

    # ------------------------------------------------------------------ rows are mapped

    def transform(self, X: ArrayLike) -> Singles:
        """Map rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers of any real type.

        Returns
        -------
        ndarray of float32 of shape (n_rows, n_features_out)
            The inputs, if they are included, and then the random features. Those of a row are the same alone
            and among others, and on every machine, to one unit of float32.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, or the columns are not those of the sample.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, ensure_all_finite=False)
        self._refuse_missing(rows)
        return mapped(self, rows) if lies_elsewhere(rows) else self.transformed(rows)

    def transformed(self, rows: NDArray[Any]) -> Singles:
        """What the map makes of rows that have been checked: (n_rows, n_outputs)."""
        made = np.empty((len(rows), self.n_outputs), np.float32)
        self.write(rows, made)
        return made

    def write(self, rows: NDArray[Any], out: Singles) -> bool:
        """Write what the map makes of rows to an array (n_rows, n_outputs); return whether all are finite."""
        slices = (slice(start, start + _ROWS_TOGETHER) for start in range(0, len(rows), _ROWS_TOGETHER))
        return all(list(in_threads(lambda some: self._write_rows(rows[some], out[some]), slices)))

    def _write_rows(self, rows: NDArray[Any], made: Singles) -> bool:
        """Write what the map makes of few rows, as `write` does."""
        n_inputs = self._n_inputs
        inputs = made[:, :n_inputs] if self.include_inputs else np.empty((len(rows), n_inputs), np.float32)
        made = made[:, n_inputs:] if self.include_inputs else made
        is_finite = self._write_inputs(rows, inputs)
        with single_blas_thread():
            angles = np.matmul(inputs, self.frequencies_, dtype=np.float64)
        map_angles(angles, self.offsets_, made, are_hinges=self.kind == "relu")
        return is_finite

    def _write_inputs(self, rows: NDArray[Any], out: Singles) -> bool:
        """Write the inputs that are made of rows; return whether all are finite."""
        n_columns = len(self.mean_)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = rows - self.mean_
            scaled *= self.factor_
            is_finite = bool(np.isfinite(scaled).all())
        np.clip(scaled, -FARTHEST, FARTHEST, out=out[:, :n_columns])
        for i, (j, knots, levels) in enumerate(self._ranks, n_columns):
            out[:, i] = np.interp(rows[:, j], knots, levels)
        return is_finite

    def _refuse_missing(self, rows: NDArray[Any]) -> None:
        """Raise ValueError if a value is NaN or infinite."""
        xp = array_namespace(rows)
        if bool(xp.all(xp.isfinite(rows))):
            return
        rows = in_numpy(rows)
        i, j = np.argwhere(~np.isfinite(rows))[0]
        name = getattr(self, "feature_names_in_", np.arange(rows.shape[1])).tolist()[j]
        what = "NaN" if np.isnan(rows[i, j]) else "infinity"
        raise ValueError(f"row {i}: feature {name!r} is {what}; {FILL_IN}, or leave out such rows")

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """The names of what `transform` makes.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names of the columns, if the sample had none.

        Returns
        -------
        ndarray of str
            The columns and "rank(column)", if they are included, and then the random features by number.
        """
        check_is_fitted(self)
        columns = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        names = list(columns) if self.include_inputs else []
        names += [f"rank({names[j]})" for j, _, _ in self._ranks] if names else []
        return np.array([*names, *(f"{self.kind}{j}" for j in range(self.n_components))], dtype=object)

    # ------------------------------------------------------------------ maps are saved and compared

    def to_document(self) -> dict[str, Any]:
        """Plain values that JSON holds, and `from_document` reads; W and b follow from the seed."""
        check_is_fitted(self)
        knots, levels = ([rank[i] for rank in self._ranks] for i in (1, 2))
        numbers = [self.mean_, self.factor_, self.metric_, [self.median_distance_], *knots, *levels]
        names = getattr(self, "feature_names_in_", None)
        return {
            **self.get_params(),
            "bandwidth": self._widths.tolist(),
            "random_state": self.seed_,
            "names": None if names is None else names.tolist(),
            "n_columns": self.n_features_in_,
            "ranks": [[j, len(own)] for j, own, _ in self._ranks],
            "numbers": b64encode(np.concatenate(numbers).astype("<f8").tobytes()).decode(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The map that `to_document` made plain values of.

        Raises
        ------
        ValueError
            If they are not such.
        """
        try:
            parameters = {name: document[name] for name in cls._get_param_names()}
            features = cls(**{**parameters, "bandwidth": tuple(parameters["bandwidth"])})
            features._check_parameters()
            features.seed_, features.n_features_in_ = features.random_state, index(document["n_columns"])
            if document["names"] is not None:
                features.feature_names_in_ = np.array(document["names"], dtype=object)
            n, ranks = features.n_features_in_, document["ranks"]
            n_inputs, sizes = n + len(ranks), [size for _, size in ranks]
            lengths = [n, n, n_inputs, 1, *sizes, *sizes]
            numbers = np.frombuffer(b64decode(document["numbers"]), "<f8").astype(np.float64)
            if len(numbers) != sum(lengths):
                raise ValueError(f"there are {len(numbers)} numbers, and not {sum(lengths)}")
            parts = [numbers[start:stop] for start, stop in pairwise(accumulate(lengths, initial=0))]
            features.mean_, features.factor_, features.metric_, (features.median_distance_,) = parts[:4]
            knots, levels = parts[4 : 4 + len(ranks)], parts[4 + len(ranks) :]
            features._ranks = [(j, *own) for (j, _), *own in zip(ranks, knots, levels, strict=True)]
            features._draw()
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"this is no map of random features: {error!r}") from error
        return features


def _frequencies(rng: np.random.RandomState, metric: Array, widths: Array, n_components: int) -> Array:
    """W, of inputs that are multiplied by a metric: (n_inputs, n_components)."""
    normal = metric[:, None] * rng.standard_normal((len(metric), n_components))
    normal /= np.resize(widths, n_components)
    return normal.astype(np.float32).astype(np.float64)  # without the last bits of a machine's logarithm


def _median_distance(inputs: Array) -> float:
    """The median distance of two rows that differ; 1 if there are none."""
    distances = pdist(inputs)
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def _metric(inputs: Singles, y: NDArray[Any], widths: Array, seed: int) -> Array:
    """The root of the mean squares of the gradient of a ridge regression on random features: (n_inputs,).

    The second regression is on features of the inputs that the first has weighed.
    """
    labels, codes = np.unique(y, return_inverse=True)
    is_class = (codes[:, None] == np.arange(len(labels))).astype(np.float64)
    root = np.ones(inputs.shape[1])
    model = Ridge(_PENALTY * len(inputs))
    for _ in range(2):
        rng = np.random.RandomState(seed)
        distance = _median_distance(inputs[:_ROWS_OF_DISTANCES] * root)
        frequencies = _frequencies(rng, root / distance, widths, _FEATURES_OF_METRIC)
        angles = inputs @ frequencies
        angles += rng.uniform(0, 2 * np.pi, _FEATURES_OF_METRIC)
        slopes = model.fit(np.cos(angles), is_class).coef_
        sines = np.sin(angles)
        squares = sum(np.square((sines * own) @ frequencies.T).mean(axis=0) for own in slopes)
        root = np.sqrt(squares / np.mean(squares)) if np.any(squares) else root
    return root
