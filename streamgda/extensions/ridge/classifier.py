"""Classification by ridge regression, whose penalty the statistics choose."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_consistent_length

from streamgda.data.blocks.block import FILL_IN, checked_weights, remedying
from streamgda.data.blocks.labels import positions_among
from streamgda.data.blocks.sparse import is_sparse
from streamgda.data.blocks.wording import callers_level
from streamgda.extensions.ridge.calibration import Calibrated, HeldOutScores, Method
from streamgda.extensions.ridge.path import RidgePath, RidgeRegression, share_path
from streamgda.extensions.ridge.scores import LinearScores
from streamgda.models.estimators import exchange
from streamgda.models.estimators.classifier import GaussianClassifier, finalised
from streamgda.models.estimators.generative import GenerativeClassifier
from streamgda.models.estimators.lazy import class_labels, rows_anywhere
from streamgda.models.estimators.moment import at_one_moment, of_one_moment
from streamgda.models.estimators.reading import check_labelled, check_rows, one_of
from streamgda.models.estimators.scores import Finalised, RowScores
from streamgda.models.gaussians.posteriors import decisions
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceType
from streamgda.statistics.missing import MissingRows

_SCALE = 10.0  # of scores; by it, a temperature between .6 and 1.8 was best for all datasets tried
_ROUNDING = 2.0**-52


@dataclass(eq=False, repr=False)
class RidgeClassifier(GaussianClassifier[Any]):
    """Classification by ridge regression of class indicators on the features, from tied statistics.

    The statistics that give linear discriminant analysis also give least squares, with every penalty. So the
    model learns in one read, merges, and forgets rows, as all models here. The penalty is chosen by
    generalised cross-validation, without another look at the rows.

    Least squares gives no probabilities. Those of `predict_proba` are the softmax of 10 times the fitted
    values, divided by `temperature`; they are rough until `calibrate` has been called.

    Parameters
    ----------
    alpha : float or "gcv", default="gcv"
        The penalty λ of the squared coefficients. "gcv" is the one of least generalised cross-validation
        error.
    scale : bool, default=True
        Whether features are divided by their standard deviations over all rows first, so that the model does
        not depend on their units. Features that do not vary are left out. Without, and with a number as
        `alpha`, the model is scikit-learn's ``RidgeClassifier(alpha)``.
    max_df : float, default=0.5
        The most degrees of freedom of the regression for each row that "gcv" may choose. Where they are close
        to one for each row, the criterion says nothing.
    exact : bool, default=False
        Whether to learn by exact sums, whose bits do not depend on the order or grouping of the rows; see
        `ExactClassStatistics`.
    temperature : float, default=1.0
        As in `QuadraticDiscriminantAnalysis`, for the scores. `calibrate` sets it.
    categories : "auto", Categorical or None, default="auto"
        As in `QuadraticDiscriminantAnalysis`. Each category becomes a feature of 0 and 1.
    half_life : float, optional
        As in `QuadraticDiscriminantAnalysis`.

    Attributes
    ----------
    statistics_ : ClassStatistics or ExactClassStatistics
        What the model has learnt; of covariance type "tied".
    classes_ : ndarray of shape (n_classes,)
        The labels seen, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the data had any.
    alpha_ : float
        The penalty.
    df_ : float
        The degrees of freedom of the regression, its intercept included.
    gcv_ : float
        Its criterion: n RSS / (n − df)², where RSS is the sum over the classes of the squared residuals, and
        n the weight of the rows, or their effective number (Σ w)² / Σ w² if that is larger.
    alphas_, gcv_path_ : ndarray of shape (n_alphas,)
        Other penalties, in ascending order, and the criterion of each.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        Coefficients of the decision function.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        Its intercepts.
    validation_error_, validation_log_loss_ : float
        The share of wrong predictions and the log loss on the rows of the last `calibrate`.

    References
    ----------
    Golub, Heath & Wahba (1979), "Generalized cross-validation as a method for choosing a good ridge
    parameter"; Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", sections 3.4.1
    and 4.2, which shows when classes between others are masked.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from streamgda import RidgeClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = RidgeClassifier().fit(X, y)
    >>> round(model.alpha_, 2), round(model.df_, 1), round(model.gcv_, 4)
    (6.4, 12.9, 0.117)
    >>> model.calibrate(X, y, method="temperature").validation_error_ < 0.02
    True
    """

    _covariance_type: ClassVar[CovarianceType] = "tied"
    _of_one_fit = (*GaussianClassifier._of_one_fit, "_calibration")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianClassifier._parameter_constraints,
        "alpha": [one_of("gcv"), Interval(Real, 0, None, closed="left")],
        "scale": ["boolean"],
        "max_df": [Interval(Real, 0, 1, closed="neither")],
    }
    _calibration = None  # that of the last `calibrate`
    priors = None

    alpha: float | Literal["gcv"] = "gcv"
    _: KW_ONLY
    scale: bool = True
    max_df: float = 0.5
    missing: MissingRows = field(default="raise", init=False)
    _takes_missing = False
    _read = remedying(FILL_IN)(GaussianClassifier._read)
    _learn_blocks = remedying(FILL_IN)(GaussianClassifier._learn_blocks)

    to_sql = GenerativeClassifier.to_sql
    as_pipeline = GenerativeClassifier.as_pipeline
    contributions = GenerativeClassifier.contributions
    set_output = GenerativeClassifier.set_output

    @property
    def _ways_to_encode(self) -> tuple[str, ...]:
        return ("features",)

    # ------------------------------------------------------------------ the regression

    def _narrowed(self, statistics: Statistics) -> Statistics:
        if statistics.simplest().missing != "raise":
            raise ValueError(
                f"{type(self).__name__} learns from complete rows, and features are missing in those of "
                "these statistics; LinearDiscriminantAnalysis(missing='marginal') learns from them"
            )
        narrowed = super()._narrowed(statistics)
        share_path(statistics, narrowed)
        return narrowed

    def _path(self, statistics: Statistics) -> RidgePath:
        return RidgePath.of(statistics, scale=self.scale, rounding=_ROUNDING)

    def _finalise(self, statistics: Statistics) -> Any:
        path = self._path(statistics)
        alpha = path.best_alpha(self.max_df) if isinstance(self.alpha, str) else float(self.alpha)
        regression = path.at(alpha)
        slopes, intercepts, scale = regression.coefficients, path.shares, _SCALE
        calibrated = self._calibration_for(statistics, regression)
        if calibrated is not None and (softmax := calibrated.softmax) is not None:
            slopes, intercepts, scale = slopes @ softmax.slopes, softmax(intercepts), 1.0
        return LinearScores(
            path.centre,
            scale * slopes,
            scale * intercepts,
            scale,
            path,
            alpha,
            calibrated,
            getattr(statistics.rule, "features", None),
        )

    def _calibration_for(self, statistics: Statistics, regression: RidgeRegression) -> Calibrated | None:
        """The calibration of the scores, if it is of the same classes."""
        calibrated: Calibrated | None = self._calibration
        is_of_these = calibrated is not None and np.array_equal(calibrated.classes, statistics.classes)
        return calibrated if is_of_these else None

    @property
    def alpha_(self) -> float:
        """The penalty."""
        return self._scores.alpha

    @property
    def df_(self) -> float:
        """The degrees of freedom of the regression, its intercept included."""
        scores = self._scores
        return scores.path.criterion(scores.alpha).df

    @property
    def gcv_(self) -> float:
        """The criterion of the penalty."""
        scores = self._scores
        return scores.path.criterion(scores.alpha).gcv

    @property
    def alphas_(self) -> Array:
        """Other penalties, in ascending order."""
        return self._scores.path.alphas

    @property
    def gcv_path_(self) -> Array:
        """The criterion of each of `alphas_`."""
        path = self._scores.path
        return np.array([path.criterion(alpha).gcv for alpha in path.alphas])

    @property
    def validation_error_(self) -> float:
        """The share of wrong predictions, of rows that the model has not seen."""
        return self._calibrated.error

    @property
    def validation_log_loss_(self) -> float:
        """The log loss of these rows."""
        return self._calibrated.log_loss

    @property
    def _calibrated(self) -> Calibrated:
        calibrated = self._scores.calibrated
        if calibrated is None:
            raise AttributeError("the model has not been calibrated; call calibrate(X, y)")
        return calibrated

    @property
    def _scores(self) -> LinearScores:
        scores: LinearScores = finalised(self).seen.gaussians
        return scores

    @property
    @of_one_moment
    def coef_(self) -> Array:
        """Coefficients of the decision function."""
        scores = self._scores
        return _of_decisions(self._among_announced(scores.slopes.T / scores.scale), scores)

    @property
    @of_one_moment
    def intercept_(self) -> Array:
        """Intercepts of the decision function."""
        scores = self._scores
        intercepts = (scores.intercepts - scores.centre @ scores.slopes) / scores.scale
        return _of_decisions(self._among_announced(intercepts, -np.inf), scores, 1.0)

    @property
    @of_one_moment
    def _linear_terms(self) -> tuple[Array, Array]:
        """The coefficients and intercepts of the decision function."""
        return self.coef_, self.intercept_

    # ------------------------------------------------------------------ predictions

    @rows_anywhere(columns=class_labels)
    def decision_function(self, X: ArrayLike) -> Array:
        """The fitted values of the regression of −1 and 1, as of scikit-learn's `RidgeClassifier`.

        After ``calibrate(method="softmax")`` these are the logarithms of the probabilities, up to a term for
        each row. Rows and errors are as for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            For two classes, the value of the second.
        """
        return self._apply(X, self._decisions)

    def _decisions(self, scores: RowScores) -> Array:
        linear: LinearScores = scores.finalised.seen.gaussians
        fitted = scores.among_all(scores.gaussians.discriminants(scores.rows), -np.inf) / linear.scale
        return _of_decisions(fitted.T, linear, 1.0).T if fitted.shape[1] > 2 else decisions(fitted)

    @property
    def score_samples(self) -> NoReturn:
        """There are no densities: AttributeError."""
        raise AttributeError("RidgeClassifier has no densities; LinearDiscriminantAnalysis has")

    def calibrate(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        method: Method = "auto",
        learnt: bool = True,
    ) -> Self:
        """Calibrate the probabilities by labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows in memory. Some thousand suffice.
        y : array-like of shape (n_rows,)
            Their labels, among `classes_`.
        sample_weight : array-like of shape (n_rows,), optional
            Their weights; of rows learnt, those with which they were learnt.
        method : {"auto", "temperature", "softmax"}, default="auto"
            "temperature" sets the parameter `temperature`, and changes no prediction. "softmax" fits a
            softmax regression of the classes on the scores, which sets `temperature` to 1, and from then on
            predicts. "auto" takes the one with the smaller log loss, by five folds of these rows.
        learnt : bool, default=True
            Whether the rows are among those that the model has learnt. They are then scored by models of the
            other rows.

        Returns
        -------
        self : object
            With `validation_error_` and `validation_log_loss_`. Both are of rows that the regression has not
            seen; a softmax regression has not seen them either. It is forgotten by `fit`, and when a new
            class appears.

        Raises
        ------
        TypeError
            If X is a source.
        ValueError
            If a label is none of the classes, or has too few rows for ``method="softmax"``.
        """
        if method not in ("auto", "temperature", "softmax"):
            raise ValueError(f"method is 'auto', 'temperature' or 'softmax'; got {method!r}")
        y = check_labelled(self, "calibrate", X, y)
        X = X.toarray() if is_sparse(X) else X
        rows: Array = np.asarray(check_rows(self, X), dtype=np.float64)
        check_consistent_length(rows, y, sample_weight)
        with at_one_moment(self):
            scores, classes = self._scores, self.statistics_.classes
        codes = positions_among(y, classes)
        weights = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight)
        weights = checked_weights(weights, "row {}".format)
        if not weights.any():
            raise ValueError("no row has a weight; give some rows to calibrate by")
        fitted = self._fitted_values(scores, rows, codes, weights, learnt)
        self._calibration = calibrated = HeldOutScores(fitted, codes, weights).calibrated(classes, method)
        self.temperature = calibrated.temperature * (_SCALE if calibrated.softmax is None else 1.0)
        self.__dict__.pop("_cache", None)
        return self

    def _fitted_values(
        self, scores: LinearScores, rows: Array, codes: NDArray[np.intp], weights: Array, learnt: bool
    ) -> Array:
        """The values that the regression, of all other rows if these are learnt, fits to rows: (n, K)."""
        mapped = rows if scores.features is None else scores.features.transformed(rows)
        path, regression = scores.path, scores.path.at(scores.alpha)
        if learnt:
            return regression.left_out(mapped, codes, weights)
        fitted: Array = path.shares + (mapped - path.centre) @ regression.coefficients
        return fitted

    def _warn_once(self, state: Finalised[Any]) -> None:
        """Warn, besides, if there are other classes than the model was calibrated for."""
        super()._warn_once(state)
        calibrated = self._calibration
        if calibrated is not None and not np.array_equal(calibrated.classes, state.seen.classes):
            self._calibration = None
            warnings.warn(
                "the model was calibrated for other classes; calibrate it again", stacklevel=callers_level()
            )

    # ------------------------------------------------------------------ exchange

    def _beside_statistics(self) -> dict[str, Any]:
        beside = super()._beside_statistics()
        if self._calibration is not None:
            beside["calibration"] = self._calibration.to_document()
        return beside

    def _restore(self, document: Mapping[str, Any]) -> None:
        super()._restore(document)
        if (saved := document.get("calibration")) is not None:
            self._calibration = Calibrated.from_document(saved)

    @of_one_moment
    def to_sklearn(self) -> Any:
        """A fitted `sklearn.linear_model.RidgeClassifier` with the same decisions.

        It has no probabilities. With categories it is the last step of a `Pipeline` that takes frames.
        """
        from sklearn import linear_model  # which takes a tenth of a second to import

        peer = linear_model.RidgeClassifier(alpha=self.alpha_)
        peer.coef_, peer.intercept_ = self.coef_, self.intercept_
        peer._label_binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(self.classes_)
        peer.n_features_in_ = self.n_features_in_
        exchange.describe(peer, self)
        return self.statistics_.schema.before(peer)


def _of_decisions(terms: Array, scores: LinearScores, shift: float = 0.0) -> Array:
    """The terms of the decision function, from those of the fitted values of indicators."""
    if len(terms) == 2:
        return terms[1:] - terms[:1]
    return 2 * terms - shift if scores.scale == _SCALE else terms.copy()
