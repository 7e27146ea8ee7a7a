"""Discriminant analysis with fourteen models of the covariances of the classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn import discriminant_analysis

from streamgda.extensions.edda.determined import Determined
from streamgda.extensions.edda.parsimonious import MODELS, ParsimoniousGaussians
from streamgda.models.estimators import exchange
from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.generative import GenerativeClassifier
from streamgda.models.estimators.likelihood import bayesian_criterion, joint_log_likelihood
from streamgda.models.estimators.moment import of_one_moment
from streamgda.models.estimators.priors import priors_of
from streamgda.models.estimators.reading import one_of
from streamgda.models.estimators.scores import Finalised
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceType

_OF_ONE_COVARIANCE = ("EII", "EEI", "EEE")
_SAME = 1e-9  # relative difference of criteria that rounding explains
_MOST_WORK = 2_000_000  # multiplications of a sweep over common axes, which is made some hundred times


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianDiscriminantAnalysis(GenerativeClassifier[ParsimoniousGaussians]):
    """Discriminant analysis that chooses what the covariances of the classes have in common (EDDA).

    The covariance of class k is λ_k D_k A_k D_kᵀ: its volume λ_k, its shape A_k (diagonal, of determinant 1)
    and its orientation D_k (orthogonal). A model is named by three letters, for volume, shape and
    orientation: E is equal for all classes, V varies from class to class, I is the identity (a sphere, or
    the axes of the features). EEE is linear and VVV quadratic discriminant analysis.

    All models are fitted by maximum likelihood to the one state. EII, VII, EEV, VEV, EVE and VVE depend on
    the units of the features.

    Parameters
    ----------
    covariance_model : str, default="bic"
        One of EII, VII, EEI, VEI, EVI, VVI, EEE, VEE, EVE, VVE, EEV, VEV, EVV and VVV; or "bic", the one with
        the largest `bic_`. "bic" leaves out models that the rows do not determine, such as VVV if a class has
        fewer rows than features, and lists them in `failures_`. It also leaves out EVE and VVE if they would
        take minutes, as for 60 features of 10 classes. A model that is asked for by name raises an error if
        the rows do not determine it.
    priors : array-like of shape (n_classes,) or dict, optional
        As in `QuadraticDiscriminantAnalysis`, but an array must sum to 1.
    tol : float, default=1e-4
        As in `QuadraticDiscriminantAnalysis`, for the covariances of each model.
    missing : {"raise", "marginal"} or Marginal, default="raise"
        As in `QuadraticDiscriminantAnalysis`. The models are fitted to the means and scatters that are
        likeliest for the observed values, with a covariance for each class.
    exact : bool, default=False
        Whether to learn by exact sums, whose bits do not depend on the order or grouping of the rows; see
        `ExactClassStatistics`.
    temperature : float, default=1.0
        Divides ln p(x, k) before it becomes a posterior probability: p(k | x) ∝ p(x, k)^(1 / temperature).
        Above 1, probabilities are less sure; the predicted classes stay. `Evaluation.best_temperature` fits
        it to rows that were not learnt. Densities, as of `score_samples`, do not depend on it.
    categories : "auto", Categorical or None, default="auto"
        As in `QuadraticDiscriminantAnalysis`. Each category is a feature of 0 and 1. Only EII and EEI take
        them. EEE is LDA, and fails: the features of a column sum to 1, so they are collinear.
    half_life : float, optional
        As in `QuadraticDiscriminantAnalysis`.

    Attributes
    ----------
    statistics_ : ClassStatistics, ExactClassStatistics or IncompleteStatistics
        What the model has learnt; of covariance type "full".
    classes_ : ndarray of shape (n_classes,)
        The labels seen, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the data had any.
    covariance_model_ : str
        The model.
    bic_ : dict of str to float
        The criterion 2 L − p ln N of each model that was fitted, with the log-likelihood L, the number of
        parameters p and the weight N of all rows: larger is better. In the other estimators, `bic_` is one
        number.
    failures_ : dict of str to str
        What the rows lack for each model that was left out.
    priors_ : ndarray of shape (n_classes,)
        Prior probabilities.
    means_ : ndarray of shape (n_classes, n_features)
        Means of the classes.
    covariance_ : list of n_classes ndarrays of shape (n_features, n_features)
        Covariances of the classes.
    volumes_ : ndarray of shape (n_classes,)
        λ, the geometric mean of the eigenvalues of each covariance.
    shapes_ : ndarray of shape (n_classes, n_features)
        The diagonal of each A: eigenvalues over their geometric mean.
    orientations_ : ndarray of shape (n_classes, n_features, n_features)
        Each D, with the axes as columns, in the order of `shapes_`.
    n_iter_ : int
        The number of steps of EM that estimated means and covariances from rows with missing features; 0 if
        none was needed.
    converged_ : bool
        Whether these steps converged.
    n_reads_ : int
        How often `fit` read the rows.

    References
    ----------
    Celeux & Govaert (1995), "Gaussian parsimonious clustering models", Pattern Recognition 28;
    Bensmail & Celeux (1996), "Regularized Gaussian discriminant analysis through eigenvalue decomposition",
    Journal of the American Statistical Association 91.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgda import GaussianDiscriminantAnalysis
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianDiscriminantAnalysis().fit(X, y)
    >>> model.covariance_model_, round(model.bic_["VEV"], 2), round(model.score(X, y), 2)
    ('VEV', -578.5, 0.98)
    """

    _covariance_type: ClassVar[CovarianceType] = "full"
    _remedy_for_encoded = "set covariance_model='EEI', or use LinearDiscriminantAnalysis"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GenerativeClassifier._parameter_constraints,
        "covariance_model": [one_of("bic", *MODELS)],
    }

    covariance_model: str = "bic"
    priors: ArrayLike | None = None
    tol: float = 1e-4

    @property
    def _ways_to_encode(self) -> tuple[str, ...]:
        return ("features",) if self.covariance_model in {"bic", *_OF_ONE_COVARIANCE} else ()

    def _finalise(self, statistics: Statistics) -> ParsimoniousGaussians:
        tried = MODELS if statistics.schema.is_numeric else _OF_ONE_COVARIANCE
        names = tried if self.covariance_model == "bic" else (self.covariance_model,)
        fitted, failures = self._fits(names, statistics)
        if not fitted:
            raise np.linalg.LinAlgError(_message(names, failures))
        priors = priors_of(self, statistics.classes, statistics.weights)
        bic = {name: self._criterion(fit, statistics, priors) for name, fit in fitted.items()}
        best = _simplest_of_the_best(bic)
        return replace(fitted[best], mean_tails=statistics.mean_tails, bic=bic, failures=failures)

    def _fits(
        self, names: tuple[str, ...], statistics: Statistics
    ) -> tuple[dict[str, ParsimoniousGaussians], dict[str, str]]:
        """The densities of each model, and what the statistics lack for the others."""
        least_eigenvalue = float(self.tol) * float(self.tol)
        determined = Determined(statistics, least_eigenvalue)
        moments = statistics.means, statistics.scatter, statistics.weights
        fitted, failures = {}, {}
        for name in names:
            reason = determined.why_not(name)
            if reason is None and len(names) > 1:
                reason = _takes_long(name, *statistics.means.shape)
            if reason is None:
                try:
                    fitted[name] = ParsimoniousGaussians.of(name, *moments, least_eigenvalue)
                except np.linalg.LinAlgError as error:
                    reason = str(error)
            if reason is not None:
                failures[name] = reason
        return fitted, failures

    def _criterion(self, fit: ParsimoniousGaussians, statistics: Statistics, priors: Array) -> float:
        """The Bayesian information criterion of a model."""
        state = Finalised.of(self, statistics.changes, statistics.classes, fit, fit, priors)
        n_parameters = self._n_parameters(fit, statistics)
        return bayesian_criterion(joint_log_likelihood(state, statistics), n_parameters, statistics)

    def _n_covariance_parameters(self, gaussians: Any, statistics: Statistics) -> float:
        return float(gaussians.n_covariance_parameters)

    # ------------------------------------------------------------------ fitted attributes

    @property
    def covariance_model_(self) -> str:
        """The model."""
        return finalised(self).gaussians.model

    @property
    def bic_(self) -> dict[str, float]:  # type: ignore[override]  # one model has one number
        """The Bayesian information criterion of each model that was fitted: larger is better."""
        return dict(finalised(self).gaussians.bic)

    @property
    def failures_(self) -> dict[str, str]:
        """What the rows lack for each model that was left out."""
        return dict(finalised(self).gaussians.failures)

    @property
    def covariance_(self) -> list[Array]:
        """Covariances of the classes."""
        return list(self._of_fitted("covariances", np.eye))

    @property
    def volumes_(self) -> Array:
        """The geometric mean of the eigenvalues of each covariance."""
        return self._of_fitted("volumes", lambda _: 1.0)

    @property
    def shapes_(self) -> Array:
        """The eigenvalues of each covariance, over their geometric mean."""
        return self._of_fitted("shapes", np.ones)

    @property
    def orientations_(self) -> Array:
        """The axes of each class as columns, in the order of `shapes_`."""
        return self._of_fitted("orientations", np.eye)

    @of_one_moment
    def _of_fitted(self, name: str, unit: Callable[[int], Any]) -> Array:
        """Something of the covariance of each class. A class without rows has the covariance 1."""
        values = getattr(finalised(self).gaussians.fitted, name).copy()
        return self._among_announced(values, unit(self.statistics_.n_features))

    # ------------------------------------------------------------------ exchange with scikit-learn

    @of_one_moment
    def to_sklearn(self) -> discriminant_analysis.QuadraticDiscriminantAnalysis:
        """A fitted `sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis` with the same predictions.

        scikit-learn computes along the principal axes of the covariances. It loses digits there if the
        features have very different units.
        """
        exchange.check_has_peer(self)
        peer = discriminant_analysis.QuadraticDiscriminantAnalysis(
            priors=self._priors_of_peer, store_covariance=True
        )
        peer.rotations_ = list(self.orientations_)
        peer.scalings_ = list(self.volumes_[:, None] * self.shapes_)
        return exchange.describe(peer, self, ("priors_", "means_", "covariance_"))


def _simplest_of_the_best(bic: Mapping[str, float]) -> str:
    """The model with the largest criterion; the first of equal ones, such as for one feature."""
    largest = max(bic.values())
    return next(name for name, value in bic.items() if value >= largest - _SAME * abs(largest))


def _takes_long(model: str, n_classes: int, n_features: int) -> str | None:
    """Why a model is not fitted among others, if common axes of so many features take long."""
    if model not in {"EVE", "VVE"} or n_classes * n_features**3 <= _MOST_WORK:
        return None
    return f"for {n_features} features of {n_classes} classes it takes long; name the model to fit it"


def _message(names: tuple[str, ...], failures: Mapping[str, str]) -> str:
    """Why no model could be fitted: the reason of the named model, or of the simplest one."""
    name = names[0]
    if len(names) > 1:
        return f"no model can be fitted: {failures[name]}"
    start = f"covariance_model={name!r} cannot be fitted: "
    return f"{start}{failures[name]}; or use covariance_model='bic'"
