"""The likelihood of the rows learnt, and the criteria that weigh it against the number of parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamgda.estimators.classifier import G, GaussianClassifier, finalised
from streamgda.estimators.finalised import Finalised
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import kind_named
from streamgda.statistics.incomplete.state import IncompleteStatistics


class LikelihoodCriteria(GaussianClassifier[G]):
    """A classifier that knows how likely the rows are that it has learnt. No row is read again."""

    @property
    def log_likelihood_(self) -> float:
        """Σ ln p(x, k) of the rows learnt and their classes k, under the normal densities of the model.

        Rows count by their weights. It does not depend on `predictive`, and is −∞ if rows belong to a class
        that cannot be estimated.

        References
        ----------
        Celeux & Govaert (1995), "Gaussian parsimonious clustering models", Pattern Recognition 28.

        Examples
        --------
        >>> from streamgda import QuadraticDiscriminantAnalysis
        >>> model = QuadraticDiscriminantAnalysis().fit([[-1.0], [1.0], [2.0], [6.0]], [0, 0, 1, 1])
        >>> round(model.log_likelihood_, 6), model.n_parameters_
        (-9.834637, 5.0)
        """
        with self.statistics_.lock:
            return joint_log_likelihood(finalised(self), self.statistics_)

    @property
    def n_parameters_(self) -> float:
        """The number of free parameters: means, covariances and, unless `priors` are given, shares.

        A covariance that leans on others counts in part, by the trace of the linear map that makes
        covariances of those of the rows.

        References
        ----------
        Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", section 7.6.
        """
        return self._n_parameters(self.statistics_, self._n_covariance_parameters())

    def _n_parameters(self, statistics: Statistics, n_of_covariances: float) -> float:
        """The number of free parameters, of which so many are those of the covariances."""
        n_classes = len(statistics.classes)
        n_shares = n_classes - 1 if self.priors is None else 0
        return float(n_classes * statistics.n_features + n_of_covariances + n_shares)

    def _n_covariance_parameters(self) -> float:
        """The number of free parameters of the covariances."""
        return finalised(self).gaussians.n_covariance_parameters

    @property
    def aic_(self) -> float:
        """2 `log_likelihood_` − 2 `n_parameters_`: larger is better.

        References
        ----------
        Akaike (1974), "A new look at the statistical model identification", IEEE Transactions on Automatic
        Control 19.
        """
        return 2 * self.log_likelihood_ - 2 * self.n_parameters_


class BayesianCriterion(LikelihoodCriteria[G]):
    """A classifier of one model, with the criterion of it."""

    @property
    def bic_(self) -> float:
        """2 `log_likelihood_` − `n_parameters_` ln N, where N is the weight of all rows: larger is better.

        scikit-learn's mixtures have the opposite sign.

        References
        ----------
        Schwarz (1978), "Estimating the dimension of a model", Annals of Statistics 6.
        """
        return bayesian_criterion(self.log_likelihood_, self.n_parameters_, self.statistics_)


def bayesian_criterion(log_likelihood: float, n_parameters: float, statistics: Statistics) -> float:
    """2 L − p ln N of a model with p parameters, under which the N rows have log-likelihood L."""
    return 2 * log_likelihood - n_parameters * float(np.log(statistics.weights.sum()))


def joint_log_likelihood(state: Finalised[G], statistics: Statistics) -> float:
    """Σ ln p(x, k) of the rows of which these are the statistics: of those learnt, or of others.

    It needs Σ w (x − μ)(x − μ)ᵀ of the rows of a class, which is W + w (m − μ)(m − μ)ᵀ of their mean m and
    scatter W.

    Parameters
    ----------
    state : Finalised
        Densities and priors of the classes.
    statistics : ClassStatistics or ExactClassStatistics
        Of rows of these classes, or of some of them; of the covariance type that the model needs.
    """
    if isinstance(statistics, IncompleteStatistics) and not statistics.is_complete:
        return _of_patterns(state, statistics)
    places = np.searchsorted(state.classes, statistics.classes)
    weights, kind = statistics.weights, kind_named(statistics.covariance_type)
    tails = statistics.mean_tails
    if state.gaussians.low_parts is not None:
        tails = tails - state.gaussians.low_parts[places]
    offsets = (statistics.means - state.gaussians.means[places]) + tails
    scatter = statistics.scatter + kind.outer(np.sqrt(weights)[:, None] * offsets)
    if not kind.is_pooled and len(places) < len(state.classes):
        own, scatter = scatter, np.zeros((len(state.classes), *scatter.shape[1:]))
        scatter[places] = own
    squared = state.gaussians.total_squared_distance(scatter)
    terms = state.log_priors - state.gaussians.log_normalisers / 2
    return float(weights @ terms[places] - squared / 2)


def _of_patterns(state: Finalised[G], statistics: IncompleteStatistics) -> float:
    """Σ ln p(observed features, k) of rows in which features are missing."""
    places = np.searchsorted(state.classes, statistics.classes)
    total = float(statistics.weights @ state.log_priors[places])
    densities = replace(state, log_priors=np.zeros(len(state.classes)), _derived={})
    for features, rows in statistics.by_pattern():
        if len(features):
            observed = np.isin(np.arange(statistics.n_features), features)
            marginal = replace(densities, gaussians=state.gaussians.marginal(observed))
            total += joint_log_likelihood(marginal, rows)
    return total
