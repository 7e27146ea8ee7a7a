"""scikit-learn's displays of searches and learning curves, with the spread of the folds.

A curve has a marker at each value. If there is a single value, a point is drawn with a bar, which shows the
spread of the folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import model_selection
from sklearn.utils.validation import check_is_fitted

from streamgda.blocks.wording import listed
from streamgda.gaussians.whitening import Array
from streamgda.plotting.drawing import axes
from streamgda.selection.splitters import is_leave_one_out

if TYPE_CHECKING:
    from streamgda.selection.search import StatisticsSearchCV


_SCORES = ("train_scores", "test_scores")


class LearningCurveDisplay(model_selection.LearningCurveDisplay):
    """scikit-learn's learning curves, from `streamgda.learning_curve`."""

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw the curve; of a single value, a point with a bar one standard deviation long to each side.

        The parameters are those of scikit-learn's display.
        """
        _draw_curve(self, super().plot, "train_sizes", ax, options)
        return self

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


class ValidationCurveDisplay(model_selection.ValidationCurveDisplay):
    """scikit-learn's validation curve, from a `StatisticsSearchCV`."""

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw the curve; of a single value, a point with a bar one standard deviation long to each side.

        The parameters are those of scikit-learn's display.
        """
        _draw_curve(self, super().plot, "param_range", ax, options)
        return self

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
            Its band is one standard deviation of the folds wide, to each side; of one value, its bar.

        Raises
        ------
        ValueError
            If no candidate has such a number and these values, the search has no such scoring, or rows were
            left out one by one.
        NotFittedError
            If the search is not fitted.
        """
        check_is_fitted(search)
        name = _scoring(search, scoring)
        chosen = _chosen(search, param_name, _others(search, param_name, name) if where is None else where)
        values = np.array([search.cv_results_["params"][i][param_name] for i in chosen], dtype=np.float64)
        scores = _scores_of_folds(search, name)[chosen][np.argsort(values, kind="stable")]
        display = cls(
            param_name=param_name,
            param_range=np.sort(values),
            train_scores=scores,
            test_scores=scores,
            score_name=name.replace("_", " "),
        )
        display.plot(axes(ax), **{"score_type": "test", **options})
        return display


def _scoring(search: StatisticsSearchCV, scoring: str | None) -> str:
    """The scoring to draw: the one given, the only one, or that of refit."""
    known = [search.scoring] if isinstance(search.scoring, str) else list(search.scoring)
    chosen = search.refit if scoring is None and len(known) > 1 else scoring or known[0]
    if isinstance(chosen, str) and chosen in known:
        return chosen
    if scoring is None:
        raise ValueError(f"the search has several scorings: {listed(known)}; give one of them as scoring=")
    raise ValueError(f"{scoring!r} is none of the scorings of the search: {listed(known)}")


def _column(search: StatisticsSearchCV, what: str, scoring: str) -> Any:
    """A column of the results, such as the ranks by a scoring."""
    return search.cv_results_[f"{what}_test_{scoring if search.multimetric_ else 'score'}"]


def _scores_of_folds(search: StatisticsSearchCV, scoring: str) -> Array:
    """The scores (n_candidates, n_splits)."""
    if is_leave_one_out(search.cv):
        raise ValueError(
            "there are no scores of folds: the search was made with cv='loo' and has means alone; give the "
            "search a number of folds"
        )
    return np.column_stack([_column(search, f"split{i}", scoring) for i in range(search.n_splits_)])


def _others(search: StatisticsSearchCV, param_name: str, scoring: str) -> dict[str, Any]:
    """The other parameters of the best candidate, or of the best by a scoring if none is chosen."""
    best = getattr(search, "best_index_", _column(search, "rank", scoring).argmin())
    params = search.cv_results_["params"][best]
    return {name: value for name, value in params.items() if name != param_name}


def _chosen(search: StatisticsSearchCV, param_name: str, others: Mapping[str, Any]) -> list[int]:
    """The positions of the candidates with a number for a parameter, and given values for others."""
    found = [
        i
        for i, params in enumerate(search.cv_results_["params"])
        if _is_number(params.get(param_name)) and _has(params, others)
    ]
    if not found:
        rest = f" and {dict(others)}; where= gives other values" if others else ""
        raise ValueError(f"no candidate has a number for {param_name!r}{rest}")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _has(params: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return all(params.get(name) is value or params.get(name) == value for name, value in values.items())


# ---------------------------------------------------------------------- curves with a marker at each value


def _draw_curve(display: Any, draw: Callable[..., Any], x: str, ax: Any, options: Mapping[str, Any]) -> None:
    """Draw a display of scikit-learn, which needs two values to choose a scale, of a single one too.

    Parameters
    ----------
    display : LearningCurveDisplay or ValidationCurveDisplay
        With the scores of the folds.
    draw : callable
        The `plot` of scikit-learn's display.
    x : str
        The attribute that holds the values.
    ax : matplotlib Axes, optional
        Where to draw.
    options : mapping
        Parameters of `draw`.
    """
    whole = {name: getattr(display, name) for name in (x, *_SCORES)}
    if len(whole[x]) > 1:
        draw(ax, **_marking_values(options))
        _tick_at(display.ax_, np.unique(whole[x]))
        return
    try:
        vars(display).update({name: _and_nothing(values) for name, values in whole.items()})
        draw(ax, **_as_point(options))
    finally:
        vars(display).update(whole)


def _tick_at(ax: Any, values: Array) -> None:
    """Put a tick at each value that was tried, but for those that would overprint the one before."""
    places = ax.transData.transform(np.column_stack([values, np.zeros(len(values))]))[:, 0]
    room = 0.2 * ax.figure.dpi  # upright digits, and a gap
    kept: list[int] = []
    for i, place in enumerate(places):
        if not kept or place - places[kept[-1]] >= room:
            kept.append(i)
    ax.set_xticks(values[kept], [f"{value:g}" for value in values[kept]], rotation=90)
    ax.minorticks_off()


def _marking_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options in which each value that was tried has a marker on its curve."""
    if options.get("std_display_style", "fill_between") == "errorbar":
        return {**options, "errorbar_kw": {"marker": "o", **(options.get("errorbar_kw") or {})}}
    return {**options, "line_kw": {"marker": "o", "markersize": 4, **(options.get("line_kw") or {})}}


def _and_nothing(values: Array) -> Array:
    """The values, followed by as many NaN, which are not drawn."""
    held = np.asarray(values, dtype=np.float64)
    return np.concatenate([held, np.full_like(held, np.nan)])


def _as_point(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options in which a point can be seen: a marker, and a bar for a band."""
    line, bars = (dict(options.get(name) or {}) for name in ("line_kw", "errorbar_kw"))
    line = {"marker": "o", **line}
    if options.get("std_display_style", "fill_between") is None:
        return {**options, "line_kw": line}
    if "fmt" in bars:
        del line["marker"]
    rest = {name: value for name, value in options.items() if name != "fill_between_kw"}
    return {**rest, "std_display_style": "errorbar", "errorbar_kw": {**line, **bars}}
