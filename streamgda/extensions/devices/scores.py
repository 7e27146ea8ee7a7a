"""What a model answers to rows on a device, in float64, from the arrays of its `ScoreFormula`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.externals.array_api_compat import array_namespace, device
from sklearn.utils.validation import validate_data

from streamgda.extensions.devices.rows import slices_of
from streamgda.models.estimators.classifier import checked_quantile, finalised
from streamgda.models.estimators.formula import ScoreFormula, check_formula, formula_of
from streamgda.models.estimators.libraries import in_double, on_host, to_place_of
from streamgda.models.estimators.moment import at_one_moment
from streamgda.models.estimators.scores import Finalised
from streamgda.models.gaussians.posteriors import decisions


def answer(method: Callable[..., Any], model: Any, X: Any, **options: Any) -> Any:
    """What a method of a fitted model answers to rows, as an array of their library on their device.

    Where a value is not finite, or no class has a density, the host answers, or raises its error.

    Raises
    ------
    TypeError
        If the method takes rows of the host alone.
    ValueError
        If the rows are not those of the model, or it scores rows of the host alone.
    """
    name, xp, put = method.__name__, array_namespace(X), to_place_of(X)
    if name not in _ANSWERS:
        raise TypeError(f"{name} takes no rows on a device; give it a copy in NumPy")
    with at_one_moment(model) as statistics:
        if not statistics.schema_of_rows.is_numeric:
            raise ValueError("a device takes no categories; give the rows in a frame")
        check_formula(model, "a device")
        X = validate_data(model, X, reset=False, ensure_all_finite=False)
        state = finalised(model)
        width = max(X.shape[1], statistics.n_features, len(statistics.classes))
        cut = slices_of(X.shape[0], width) if state.gaussians.why_none is None else ()
        answers = [_ANSWERS[name](_Rows(state, X[some, :]), model, **options) for some in cut]
    if not answers or not all(bool(xp.all(xp.isfinite(best))) for _, best in answers):
        result = method(model, on_host(in_double(X)), **options)
        return result if result.dtype.kind == "U" else put(result)
    result = xp.concat([part for part, _ in answers])
    if name != "predict":
        return result
    labels = model._types.of_labels(state.classes)
    return labels[on_host(result)] if labels.dtype.kind == "U" else xp.take(put(labels), result)


_KNOWN: WeakKeyDictionary[Finalised[Any], dict[Any, tuple[ScoreFormula, list[Any]]]] = WeakKeyDictionary()
"""The formulas of models, and their arrays on each device."""


class _Rows:
    """Rows (n, d) where they lie, to be scored by the densities of a model."""

    def __init__(self, state: Finalised[Any], X: Any) -> None:
        self.state, self.X, self.xp = state, X, array_namespace(X)
        self.put = to_place_of(X, self.xp.float64)
        self.rows = in_double(getattr(state.seen.densities, "mapped", lambda X: X)(X))

    def formula(self, of_distances: bool) -> tuple[ScoreFormula, list[Any]]:
        """The formula, and its arrays on the device, which are put there once for a state of the model."""
        key, known = (self.xp.__name__, str(device(self.X)), of_distances), _KNOWN.setdefault(self.state, {})
        if key not in known:
            own = formula_of(self.state, of_distances=of_distances)
            tails = np.zeros((1, 1)) if own.mean_tails is None else own.mean_tails
            matrices = own.matrices if own.matrices.strides[0] else own.matrices[:1]  # those of all are one
            known[key] = own, [*map(self.put, (own.centres, tails, matrices, own.constants[None]))]
        return known[key]

    def scores(self, *, of_distances: bool = False) -> tuple[Any, Any]:
        """Ln p(x, k), up to a term for each row, and the largest of each row: (n, K), (n, 1)."""
        formula, (centres, tails, matrices, constants) = self.formula(of_distances)
        xp, columns = self.xp, []
        if formula.kind == "linear":
            scores = (self.rows - centres) @ matrices + constants
        else:
            for k in range(len(formula.constants)):
                own = self.rows - centres[k, :] - tails[k % tails.shape[0], :]
                matrix = matrices[k % matrices.shape[0], ...]
                own = own @ matrix if formula.kind == "full" else own * matrix
                columns.append(xp.sum(own * own, axis=1))
            scores = constants - 0.5 * xp.stack(columns, axis=1)
        if any(len(own) != 1 for own in formula.members):
            each = [self._joined(scores, own, of_distances) for own in formula.members]
            scores = xp.concat(each, axis=1)
        return scores, self.most(scores)

    def _joined(self, scores: Any, own: Any, of_distances: bool) -> Any:
        """The scores of a class, from those of its subclasses: (n, 1)."""
        if not len(own):  # no row of the class has come
            return self.xp.full_like(scores[:, :1], -self.xp.inf)
        part = scores[:, int(own[0]) : int(own[-1]) + 1]
        return self.most(part) if of_distances or len(own) == 1 else self.log_sum(part)

    def most(self, values: Any) -> Any:
        """The largest value of each row: (n, 1)."""
        return self.xp.max(values, axis=1, keepdims=True)

    def log_sum(self, values: Any) -> Any:
        """Ln Σ exp(value) of each row: (n, 1)."""
        xp, most = self.xp, self.most(values)
        most = xp.where(xp.isfinite(most), most, 0.0)
        return xp.log(xp.sum(xp.exp(values - most), axis=1, keepdims=True)) + most

    def log_probabilities(self) -> tuple[Any, Any]:
        """Ln p(k | x), and the largest score of each row: (n, K), (n, 1)."""
        scores, best = self.scores()
        gaps = (scores - best) / self.state.temperature
        return gaps - self.log_sum(gaps), best


def _predict(own: _Rows, model: Any) -> tuple[Any, Any]:
    scores, best = own.scores()
    return own.xp.argmax(scores, axis=1), best


def _proba(own: _Rows, model: Any) -> tuple[Any, Any]:
    logs, best = own.log_probabilities()
    return own.xp.exp(logs), best


def _set(own: _Rows, model: Any, quantile: Any) -> tuple[Any, Any]:
    xp, (logs, best) = own.xp, own.log_probabilities()
    shares, classes = xp.exp(logs), xp.arange(logs.shape[1], device=device(logs))[None, :]
    is_best = classes == xp.argmax(logs, axis=1)[:, None]
    beside = xp.sum(xp.where(is_best, 0.0, shares), axis=1, keepdims=True)
    odds = logs - xp.log(xp.where(is_best, beside, 1.0 - shares))  # the best would cancel
    return odds >= own.put(np.atleast_1d(checked_quantile(quantile, logs.shape[1]))), best


def _decision(own: _Rows, model: Any) -> tuple[Any, Any]:
    if not hasattr(model, "_linear_terms"):
        scores, best = own.scores()
        return decisions(scores / own.state.temperature), best
    (slopes, intercepts), centre = model._linear_terms, own.state.seen.gaussians.centre
    result = (own.rows - own.put(centre)) @ own.put(slopes.T) + own.put(intercepts + slopes @ centre)
    return (result if result.shape[1] > 1 else result[:, 0]), own.most(result)


def _mahalanobis(own: _Rows, model: Any, relative: bool) -> tuple[Any, Any]:
    scores, best = own.scores(of_distances=True)
    if not relative:
        return own.xp.sqrt(-2.0 * scores), best
    every = finalised(model).once("of one class", model._as_one_class)
    return 2.0 * (_Rows(every, own.X).scores(of_distances=True)[0] - scores), best


def _transform(own: _Rows, model: Any) -> tuple[Any, Any]:
    scalings, centre = own.put(model._components), own.put(own.state.gaussians.centre)[None, :]
    result = (own.rows - centre) @ scalings + (centre @ scalings if model.solver == "eigen" else 0.0)
    return own.xp.astype(result, getattr(own.xp, str(model._types.of_products(own.X)))), result


_ANSWERS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "predict": _predict,
    "predict_proba": _proba,
    "predict_log_proba": lambda own, model: own.log_probabilities(),
    "predict_joint_log_proba": lambda own, model: own.scores(),
    "predict_set": _set,
    "decision_function": _decision,
    "mahalanobis": _mahalanobis,
    "transform": _transform,
}
"""For each method of a model: its answer, and what is finite unless the host is to answer."""
