"""The projection of linear discriminant analysis: the directions that separate the classes best."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval

from streamgda.estimators.classifier import finalised, score_rows
from streamgda.estimators.discriminant import DiscriminantAnalysis
from streamgda.estimators.dtypes import Floats
from streamgda.estimators.lazy import lazy_on_dask
from streamgda.estimators.reading import check_rows
from streamgda.estimators.shrinkage import total_covariance
from streamgda.gaussians.axes import Projection
from streamgda.gaussians.products import multiply_rows
from streamgda.gaussians.shared import SharedGaussians
from streamgda.gaussians.whitening import Spectrum
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import between_covariance
from streamgda.statistics.covariances import Array

_COMPLETE_ROWS = "fill them in, since transform needs complete rows: model.transform(model.impute(X))"


class DiscriminantProjection(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DiscriminantAnalysis[SharedGaussians]
):
    """A discriminant analysis whose classes share a covariance, as a transformer."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DiscriminantAnalysis._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
    }

    n_components: int | None

    @abstractmethod
    def _covariance(self, statistics: Statistics) -> Array:
        """The covariance within the classes, shrunk or estimated."""

    @lazy_on_dask(columns=lambda model: model.get_feature_names_out())
    def transform(self, X: ArrayLike) -> Floats:
        """Project rows on the directions that separate the classes best.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows without missing values, whatever the parameter `missing` is. `impute` fills in missing
            values.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Within the classes, components are uncorrelated and of unit variance. With solver "svd" rows are
            taken relative to `xbar_`, with "eigen" they are not. The type is float32 if these rows and the
            fitted rows are of float32.

        Raises
        ------
        NotImplementedError
            If the solver is "lsqr".
        ValueError
            If a value is missing or infinite, or the features are not those of the model.
        """
        rows = check_rows(self, X, missing="raise", other_remedy=_COMPLETE_ROWS)
        scalings = self._components
        centre = finalised(self).gaussians.centre
        projected = np.empty((len(rows), scalings.shape[1]), dtype=self._types.of_products(rows))
        shift = centre @ scalings if self.solver == "eigen" else 0.0  # with "svd", components stay centred
        for scores in score_rows(self, rows, missing="raise"):
            projected[scores.positions] = multiply_rows(scores.rows - centre, scalings) + shift
        return projected

    @property
    def _components(self) -> Array:
        """The directions that `transform` projects on: (n_features, n_components)."""
        return np.ascontiguousarray(self._projection.scalings[:, : self._max_components])

    @property
    def _projection(self) -> Projection:
        if self.solver == "lsqr":
            raise NotImplementedError("transform not implemented for 'lsqr' solver (use 'svd' or 'eigen').")
        self._check_features("transform")
        with self.statistics_.lock:
            return finalised(self).once("projection", self._project)

    def _project(self) -> Projection:
        statistics, state = self.statistics_, finalised(self)
        means, within = statistics.means, self._covariance(statistics)
        spectrum = Spectrum.of(within, means, float(self.tol) ** 2)
        if self.solver == "svd":
            return Projection.of_means(
                means - state.gaussians.centre, state.priors, spectrum, float(self.tol)
            )
        return Projection.of_covariances(self._between(statistics, within), within, spectrum)

    def _between(self, statistics: Statistics, within: Array) -> Array:
        """The covariance between the classes: the total less that within them, each shrunk or estimated."""
        if self.covariance_estimator is not None and (total := self._estimated(statistics).total) is not None:
            return total - within
        if self.shrinkage is not None:
            return total_covariance(statistics, self.shrinkage) - within
        return between_covariance(statistics)

    @property
    def _max_components(self) -> int:
        return self.n_components or _most_components(self.statistics_)

    @property
    def _n_features_out(self) -> int:
        return self._max_components if self.solver == "lsqr" else int(self._components.shape[1])

    @property
    def scalings_(self) -> Floats:
        """The directions of the components. Those that `transform` leaves out are last."""
        self._check_attribute("scalings_", "svd", "eigen")
        return self._types.of_rows(self._projection.scalings.copy())

    @property
    def explained_variance_ratio_(self) -> Array:
        """The share of each component in the variance between the classes."""
        self._check_attribute("explained_variance_ratio_", "svd", "eigen")
        return self._projection.explained_variance_ratio[: self._max_components].copy()

    @property
    def xbar_(self) -> Array:
        """Mean of the class means, weighted by the priors."""
        self._check_attribute("xbar_", "svd")
        return finalised(self).gaussians.centre.copy()

    def _check_features(self, name: str) -> None:
        """Raise AttributeError for what a model has whose categories are features."""
        if self._splits(self.statistics_):
            raise AttributeError(f"there is no {name} of numbers given categories; see categorical_model")

    def _check_components(self, statistics: Statistics, n_components: int) -> None:
        most = _most_components(statistics)
        if n_components > most:
            raise ValueError(
                "n_components cannot be larger than min(n_features, n_classes - 1). "
                f"It is {n_components}; the largest is {most}"
            )

    def _check_attribute(self, name: str, *solvers: str, otherwise: str = "") -> None:
        """Raise AttributeError for an attribute that this solver does not have, as in scikit-learn."""
        if name != "covariance_":
            self._check_features(name)
        if self.solver not in solvers:
            listed = " or ".join(f"solver={solver!r}" for solver in solvers)
            raise AttributeError(
                f"{type(self).__name__} with solver={self.solver!r} has no {name}; set {listed}{otherwise}"
            )


def projected_means(model: DiscriminantProjection) -> Array:
    """The means of the classes, projected as `transform` projects rows: (n_classes, n_components)."""
    scalings, centre = model._components, finalised(model).gaussians.centre
    projected: Array = (model.means_ - centre) @ scalings
    return projected + centre @ scalings if model.solver == "eigen" else projected


def _most_components(statistics: Statistics) -> int:
    """The largest number of components."""
    return min(len(statistics.classes) - 1, statistics.n_features)
