"""scikit-learn's displays of scores: from an `Evaluation`, a search or `streamgda.learning_curve`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import calibration, metrics, model_selection
from sklearn.utils.validation import check_is_fitted

from streamgda.blocks.wording import listed
from streamgda.gaussians.whitening import Array
from streamgda.plotting.drawing import FEW, axes, below_one, colours, draw_legend, line_styles, shown_classes
from streamgda.scoring.measures import certain_digits

if TYPE_CHECKING:
    from streamgda.scoring.evaluation import Evaluation
    from streamgda.selection.search import StatisticsSearchCV


_MOST_WITH_VALUES = 40

_MOST_CALIBRATED = 5  # classes, each with a curve of its own

_LEAST_OF_BIN = 5.0  # rows; the share of a class among fewer says little

_LABELS_ACROSS = 40  # characters that have room side by side below the axes

_UNEVEN = 5  # scikit-learn's scale is logarithmic beyond this ratio of gaps, and has no 0

_CHANCE = "Chance level (AUC = 0.5)"


class RocCurveDisplay(metrics.RocCurveDisplay):
    """scikit-learn's ROC curves, from an `Evaluation`."""

    @classmethod
    def from_evaluation(
        cls, evaluation: Evaluation, *, labels: Any = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the curve of each class against the rest, and the line of chance.

        Parameters
        ----------
        evaluation : Evaluation
            What `evaluate` returns.
        labels : label or sequence of labels, optional
            The classes to draw; by default `pos_label` of the evaluation, the second of two, or all.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            Parameters of `sklearn.metrics.RocCurveDisplay.plot`, such as ``plot_chance_level=False``.

        Returns
        -------
        display : RocCurveDisplay
        """
        evaluation = evaluation.copy()
        positions, names, (fpr, tpr, _) = _curves(evaluation, labels, evaluation.roc_curve)
        display = cls(fpr=fpr, tpr=tpr, roc_auc=list(evaluation.roc_auc[positions]), name=names)
        ax = axes(ax, len(positions) + 1)
        options.setdefault("curve_kwargs", _styles(evaluation, positions, "AUC", "roc_auc"))
        options.setdefault("plot_chance_level", _CHANCE not in ax.get_legend_handles_labels()[1])
        display.plot(ax=ax, **options)
        draw_legend(ax, loc="lower right")
        return display


class PrecisionRecallDisplay(metrics.PrecisionRecallDisplay):
    """scikit-learn's precision-recall curves, from an `Evaluation`."""

    @classmethod
    def from_evaluation(
        cls, evaluation: Evaluation, *, labels: Any = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the curve of each class against the rest. For a single class, draw the line of chance too.

        Parameters
        ----------
        evaluation : Evaluation
            What `evaluate` returns.
        labels : label or sequence of labels, optional
            The classes to draw; by default `pos_label` of the evaluation, the second of two, or all.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            Parameters of `sklearn.metrics.PrecisionRecallDisplay.plot`.

        Returns
        -------
        display : PrecisionRecallDisplay
        """
        evaluation = evaluation.copy()
        positions, names, (precision, recall, _) = _curves(
            evaluation, labels, evaluation.precision_recall_curve
        )
        display = cls(
            precision=precision,
            recall=recall,
            average_precision=list(evaluation.average_precision[positions]),
            name=names,
            prevalence_pos_label=list(evaluation.support[positions] / evaluation.support.sum()),
        )
        ax = axes(ax, len(positions) + 1)
        options.setdefault("curve_kwargs", _styles(evaluation, positions, "AP", "average_precision"))
        options.setdefault("plot_chance_level", len(positions) == 1 and not ax.lines)
        display.plot(ax=ax, **options)
        draw_legend(ax, loc="lower left")
        return display


class CalibrationDisplay(calibration.CalibrationDisplay):
    """scikit-learn's calibration curves, from an `Evaluation`.

    `prob_true`, `prob_pred`, `estimator_name` and `line_` are lists where several classes are drawn.
    """

    @classmethod
    def from_evaluation(
        cls,
        evaluation: Evaluation,
        *,
        labels: Any = None,
        min_weight: float = _LEAST_OF_BIN,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw, for each predicted probability of a class, the share of rows that are of the class.

        Parameters
        ----------
        evaluation : Evaluation
            What `evaluate` returns.
        labels : label or sequence of labels, optional
            The classes to draw; by default `pos_label` of the evaluation, the second of two, or each of up
            to five. Of more classes there is by default one curve, that of all classes together.
        min_weight : float, default=5
            Leave out bins of fewer rows.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            Parameters of `sklearn.calibration.CalibrationDisplay.plot`.

        Returns
        -------
        display : CalibrationDisplay
        """
        evaluation = evaluation.copy()
        if labels is None and evaluation.pos_label is None and len(evaluation.classes) > _MOST_CALIBRATED:
            return cls.from_evaluations({"All classes": evaluation}, min_weight=min_weight, ax=ax, **options)
        positions, names, (prob_true, prob_pred, *_) = _curves(
            evaluation, labels, partial(evaluation.calibration_curve, min_weight=min_weight)
        )
        ax = axes(ax, len(positions) + 1)
        drawn = [
            cls(true, pred, pred, estimator_name=name).plot(ax=ax, **{**style, **options})
            for true, pred, name, style in zip(
                prob_true, prob_pred, names, _styles(evaluation, positions), strict=True
            )
        ]
        if len(drawn) > FEW:
            for one in drawn:
                one.line_.set(marker="", linewidth=0.8)
        return cls._as_one(drawn, ax)

    @classmethod
    def from_evaluations(
        cls,
        evaluations: Mapping[str, Evaluation],
        *,
        min_weight: float = _LEAST_OF_BIN,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the curve of all classes together of each evaluation, such as before and after calibration.

        Parameters
        ----------
        evaluations : mapping of str to Evaluation
            What `evaluate` returns, by names for the legend, which has the log losses too.
        min_weight : float, default=5
            Leave out bins of fewer rows.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            Parameters of `sklearn.calibration.CalibrationDisplay.plot`.

        Returns
        -------
        display : CalibrationDisplay
        """
        ax, drawn = axes(ax), []
        for name, evaluation in evaluations.items():
            moment = evaluation.copy()
            true, pred = moment.mean_calibration_curve(min_weight)
            named = f"{name} (log loss {moment.log_loss:.3g})"
            drawn.append(cls(true, pred, pred, estimator_name=named).plot(ax=ax, **options))
        return cls._as_one(drawn, ax)

    @classmethod
    def _as_one(cls, drawn: Sequence[Self], ax: Any) -> Self:
        """The display of curves that were drawn to the same axes: with lists, if there are several."""
        ax.set(xlabel="Mean predicted probability", ylabel="Fraction of positives")
        draw_legend(ax)
        if len(drawn) == 1:
            return drawn[0]
        names = ("prob_true", "prob_pred", "y_prob", "estimator_name")
        display = cls(**{name: [getattr(one, name) for one in drawn] for name in names})
        display.ax_, display.figure_, display.line_ = ax, ax.figure, [one.line_ for one in drawn]
        return display


class ConfusionMatrixDisplay(metrics.ConfusionMatrixDisplay):
    """scikit-learn's confusion matrix, from an `Evaluation`."""

    @classmethod
    def from_evaluation(
        cls, evaluation: Evaluation, *, normalize: str | None = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw how many rows of each class were predicted to be of each class.

        Parameters
        ----------
        evaluation : Evaluation
            What `evaluate` returns.
        normalize : {"true", "pred", "all"}, optional
            Draw shares of the rows of each true class, of each predicted class, or of all rows.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure, which is larger for many classes.
        **options
            Parameters of `sklearn.metrics.ConfusionMatrixDisplay.plot`. By default zeros are blank for more
            than ten classes, and no values are written for more than forty.

        Returns
        -------
        display : ConfusionMatrixDisplay
        """
        evaluation = evaluation.copy()
        n_classes = len(evaluation.classes)
        display = cls(_normalised(evaluation, normalize), display_labels=evaluation.classes)
        ax = axes(ax, size=min(max(4.8, 0.35 * n_classes), 14))
        display.plot(ax=ax, **{**_matrix_style(evaluation, normalize), **options})
        if display.text_ is not None and "values_format" not in options:
            _write_values(display, as_shares=normalize is not None)
        return display


# ---------------------------------------------------------------------- classes and their styles


def _curves(
    evaluation: Evaluation, labels: Any, curve: Callable[[Any], Iterable[Array]]
) -> tuple[list[int], list[str], list[list[Array]]]:
    """The positions and names of the classes to draw, and each coordinate of their curves."""
    positions = shown_classes(evaluation.classes, evaluation.pos_label if labels is None else labels)
    chosen = [evaluation.classes[k] for k in positions]
    coordinates = zip(*map(curve, chosen), strict=True)
    return positions, list(map(str, chosen)), list(map(list, coordinates))


def _styles(
    evaluation: Evaluation, positions: Sequence[int], area: str = "", measure: str = ""
) -> list[dict[str, Any]]:
    """The style of the curve of each class, and its entry in the legend where an area is to be named."""
    n_classes = len(evaluation.classes)
    palette, dashes = colours(n_classes), line_styles(n_classes)
    styles: list[dict[str, Any]] = [
        {"color": tuple(palette[k]), "linestyle": dashes[k], "alpha": 1.0} for k in positions
    ]
    if measure:
        values, errors = getattr(evaluation, measure), getattr(evaluation, f"{measure}_error")
        for style, k in zip(styles, positions, strict=True):
            written = below_one(values[k], max(1, certain_digits(errors[k])))
            style["label"] = f"{evaluation.classes[k]} ({area} = {written})"
    return styles


def _matrix_style(evaluation: Evaluation, normalize: str | None) -> dict[str, Any]:
    n_classes = len(evaluation.classes)
    across = sum(len(str(label)) for label in evaluation.classes)
    style: dict[str, Any] = {
        "include_values": n_classes <= _MOST_WITH_VALUES,
        "xticks_rotation": "vertical" if across > _LABELS_ACROSS else "horizontal",
    }
    if n_classes > FEW:
        style["text_kw"] = {"fontsize": "x-small"}
    if normalize is not None:
        style["im_kw"] = {"vmin": 0, "vmax": None if normalize == "all" else 1}
    return style


def _write_values(display: ConfusionMatrixDisplay, *, as_shares: bool) -> None:
    """Write shares in two digits, and no zeros where there are many classes."""
    matrix = display.confusion_matrix
    for value, text in zip(matrix.flat, display.text_.flat, strict=True):
        if value == 0 and len(matrix) > FEW:
            text.set_text("")
        elif as_shares:
            text.set_text(_two_digits(value))


def _two_digits(share: float) -> str:
    """A share in two digits. A share that is not 0 or 1 is not written as 0 or 1."""
    if share in (0, 1):
        return f"{share:.0f}"
    if share < 0.005:
        return "<0.01"
    return ">0.99" if share >= 0.995 else f"{share:.2f}"


def _normalised(evaluation: Evaluation, by: str | None) -> NDArray[Any]:
    """The confusion matrix, or shares of its rows (by "true"), columns ("pred") or sum ("all")."""
    matrix = evaluation.confusion_matrix
    if by is None:
        return matrix
    true, predicted = np.indices(matrix.shape).reshape(2, -1)
    shares: NDArray[Any] = metrics.confusion_matrix(
        true, predicted, sample_weight=matrix.ravel(), normalize=by
    )
    return shares


class LearningCurveDisplay(model_selection.LearningCurveDisplay):
    """scikit-learn's learning curves, from `streamgda.learning_curve`."""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None, plot: Any = None, **options: Any
    ) -> Self:
        """Compute a learning curve in one read of the rows, or two, and draw it.

        Parameters
        ----------
        estimator : estimator
            Of this project.
        X, y
            Rows, as for `streamgda.learning_curve`.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        plot : dict, optional
            Parameters of `sklearn.model_selection.LearningCurveDisplay.plot`, such as
            ``{"score_type": "test"}``.
        **options
            Other parameters of `streamgda.learning_curve`, such as ``scoring="accuracy"``.

        Returns
        -------
        display : LearningCurveDisplay
            Its bands are one standard deviation of the folds wide, to each side.

        Raises
        ------
        ValueError
            If there is a single size.
        """
        from streamgda.selection.validation import learning_curve

        sizes, train, test = learning_curve(estimator, X, y, **options)
        _check_several(sizes)
        name = str(options.get("scoring", "log_likelihood")).replace("_", " ")
        display = cls(train_sizes=sizes, train_scores=train, test_scores=test, score_name=name)
        display.plot(axes(ax), **{"score_type": "both", **(plot or {})})
        return display


class ValidationCurveDisplay(model_selection.ValidationCurveDisplay):
    """scikit-learn's validation curve, from a `StatisticsSearchCV`."""

    param_range: NDArray[Any]

    @classmethod
    def from_search(
        cls,
        search: StatisticsSearchCV,
        param_name: str,
        *,
        scoring: str | None = None,
        where: Mapping[str, Any] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the scores of held-out folds against a parameter.

        Parameters
        ----------
        search : StatisticsSearchCV
            Fitted.
        param_name : str
            The parameter, of which the candidates have numbers.
        scoring : str, optional
            Which of several scorings to draw; by default that of `refit`.
        where : dict, optional
            The values of the other parameters of the candidates to draw. If None, those of the best one; with
            several scorings and ``refit=False``, of the best by `scoring`.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            Parameters of `sklearn.model_selection.ValidationCurveDisplay.plot`.

        Returns
        -------
        display : ValidationCurveDisplay
            Its band is one standard deviation of the folds wide, to each side.

        Raises
        ------
        ValueError
            If fewer than two candidates have such numbers and these values, the search has no such scoring,
            or rows were left out one by one.
        NotFittedError
            If the search is not fitted.
        """
        check_is_fitted(search)
        name = _scoring(search, scoring)
        chosen = _chosen(search, param_name, _others(search, param_name, name) if where is None else where)
        values = np.array([search.cv_results_["params"][i][param_name] for i in chosen], dtype=np.float64)
        _check_several(values)
        scores = _scores_of_folds(search, name)[chosen][np.argsort(values, kind="stable")]
        display = cls(
            param_name=param_name,
            param_range=np.sort(values),
            train_scores=scores,
            test_scores=scores,
            score_name=name.replace("_", " "),
        )
        return display.plot(axes(ax), **{"score_type": "test", **options})

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw the curve, as scikit-learn does; over ranks, labelled by values, if a scale of values cannot.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            Parameters of `sklearn.model_selection.ValidationCurveDisplay.plot`.

        Returns
        -------
        display : ValidationCurveDisplay
        """
        values, gaps = self.param_range, np.diff(self.param_range)
        if values[0] > 0 or gaps.max() <= _UNEVEN * gaps.min():
            super().plot(ax, **options)
            return self
        try:
            self.param_range = np.arange(len(values))
            super().plot(ax, **options)
        finally:
            self.param_range = values
        self.ax_.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        return self


def _check_several(values: NDArray[Any]) -> None:
    """Raise ValueError for a single value, at which scikit-learn cannot choose a scale."""
    if len(values) < 2:
        raise ValueError(f"a curve needs two values or more; there is {values[0]:g} alone")


def _scoring(search: StatisticsSearchCV, scoring: str | None) -> str:
    """The scoring to draw: the one given, the only one, or that of refit."""
    known = [search.scoring] if isinstance(search.scoring, str) else list(search.scoring)
    chosen = search.refit if scoring is None and len(known) > 1 else scoring or known[0]
    if isinstance(chosen, str) and chosen in known:
        return chosen
    raise ValueError(f"the scorings of the search are {listed(known)}; give one of them as scoring=")


def _column(search: StatisticsSearchCV, what: str, scoring: str) -> Any:
    """A column of the results, such as the ranks by a scoring."""
    return search.cv_results_[f"{what}_test_{scoring if search.multimetric_ else 'score'}"]


def _scores_of_folds(search: StatisticsSearchCV, scoring: str) -> Array:
    """The scores (n_candidates, n_splits)."""
    return np.column_stack([_column(search, f"split{i}", scoring) for i in range(search.n_splits_)])


def _others(search: StatisticsSearchCV, param_name: str, scoring: str) -> dict[str, Any]:
    """The other parameters of the best candidate, or of the best by a scoring if none is chosen."""
    best = getattr(search, "best_index_", _column(search, "rank", scoring).argmin())
    params = search.cv_results_["params"][best]
    return {name: value for name, value in params.items() if name != param_name}


def _chosen(search: StatisticsSearchCV, param_name: str, others: Mapping[str, Any]) -> list[int]:
    """The positions of the candidates with a number for a parameter, and given values for others."""
    candidates = search.cv_results_["params"]
    positions = [
        i
        for i, params in enumerate(candidates)
        if isinstance(value := params.get(param_name), int | float | np.number)
        and not isinstance(value, bool)
        and all(params.get(name) is other or params.get(name) == other for name, other in others.items())
    ]
    if not positions:
        rest = f" and {dict(others)}; where= gives other values" if others else ""
        raise ValueError(f"no candidate has a number for {param_name!r}{rest}")
    return positions
