"""scikit-learn's displays of searches and learning curves, with the spread of the folds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import model_selection

from streamgda.plotting.drawing import axes
from streamgda.plotting.points import PointOrCurve

if TYPE_CHECKING:
    from streamgda.selection.search import StatisticsSearchCV


class LearningCurveDisplay(PointOrCurve, model_selection.LearningCurveDisplay):
    """scikit-learn's learning curves, from `streamgda.learning_curve`."""

    _x = "train_sizes"

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
            Its bands are one standard deviation of the folds wide, to each side; of one size, its bars.
        """
        from streamgda.selection.validation import learning_curve

        sizes, train, test = learning_curve(estimator, X, y, **options)
        name = str(options.get("scoring", "log_likelihood")).replace("_", " ")
        display = cls(train_sizes=sizes, train_scores=train, test_scores=test, score_name=name)
        display.plot(axes(ax), **{"score_type": "both", **(plot or {})})
        return display


class ValidationCurveDisplay(PointOrCurve, model_selection.ValidationCurveDisplay):
    """scikit-learn's validation curve, from a `StatisticsSearchCV`."""

    _x = "param_range"

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
            Which of several scorings to draw.
        where : dict, optional
            The values of the other parameters of the candidates to draw. If None, those of the best one.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            Parameters of `sklearn.model_selection.ValidationCurveDisplay.plot`.

        Returns
        -------
        display : ValidationCurveDisplay
            Its band is one standard deviation of the folds wide, to each side; of one value, its bar.

        Raises
        ------
        ValueError
            If no candidate has such a number and these values, or rows were left out one by one.
        """
        results, key = search.cv_results_, scoring or "score"
        others = _others(search, param_name) if where is None else dict(where)
        chosen = [
            i
            for i, params in enumerate(results["params"])
            if _is_number(params.get(param_name)) and _has(params, others)
        ]
        if not chosen or f"split0_test_{key}" not in results:
            raise ValueError(
                f"no candidate has a number for {param_name!r}, scores of folds by {key!r}, and {others}"
            )
        values = np.array([results["params"][i][param_name] for i in chosen], dtype=np.float64)
        splits = [results[f"split{i}_test_{key}"] for i in range(search.n_splits_)]
        scores = np.column_stack(splits)[chosen][np.argsort(values, kind="stable")]
        name = (scoring or str(search.scoring)).replace("_", " ")
        display = cls(
            param_name=param_name,
            param_range=np.sort(values),
            train_scores=scores,
            test_scores=scores,
            score_name=name,
        )
        display.plot(axes(ax), **{"score_type": "test", **options})
        return display


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _has(params: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return all(params.get(name) is value or params.get(name) == value for name, value in values.items())


def _others(search: StatisticsSearchCV, param_name: str) -> dict[str, Any]:
    """The other parameters of the best candidate; of several estimators with the parameter, its own."""
    return {name: value for name, value in search.best_params_.items() if name != param_name}
