"""scikit-learn's displays of scores: from a search or `streamgda.learning_curve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import model_selection
from sklearn.utils.validation import check_is_fitted

from streamgda.data.blocks.wording import listed
from streamgda.jobs.selection.search import StatisticsSearchCV
from streamgda.jobs.selection.validation import learning_curve
from streamgda.plotting.drawing import axes

_UNEVEN = 5  # the ratio of gaps from which on scikit-learn's scales are logarithmic, which 0 is not on


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
        folds = [_column(search, f"split{i}", name) for i in range(search.n_splits_)]
        scores = np.column_stack(folds)[chosen][np.argsort(values, kind="stable")]
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
