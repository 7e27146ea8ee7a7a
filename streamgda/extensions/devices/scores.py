"""What a model answers to rows on a device, in float64, from the arrays of its `ScoreFormula`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.externals.array_api_compat import array_namespace, device
from sklearn.utils.validation import validate_data

from streamgda.extensions.devices.features import mapped, putting
from streamgda.extensions.devices.rows import DeviceRows, check_float64, pieces
from streamgda.models.estimators.classifier import checked_quantile, finalised
from streamgda.models.estimators.formula import ScoreFormula, check_formula, formula_of
from streamgda.models.estimators.libraries import on_host
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
    name, xp = method.__name__, array_namespace(X)
    if name not in _ANSWERS:
        raise TypeError(f"{name} takes no rows on a device; give it a copy in NumPy")
    with at_one_moment(model) as statistics:
        if not statistics.schema_of_rows.is_numeric:
            raise ValueError("a device takes no categories; give the rows in a frame")
        check_formula(model, "a device")
        X = validate_data(model, X, reset=False, ensure_all_finite=False)
        state, good, parts = finalised(model), [], []
        own = _Scores.of(state, X, model) if state.gaussians.why_none is None else None
        for some in pieces(X.shape[0], own.width) if own else ():
            part, best = _ANSWERS[name](own, X[some, :], model, **options)
            good.append(xp.all(xp.isfinite(best)))
            parts.append(part)
        labels = model._types.of_labels(state.classes)
    put = putting(X)
    if not parts or not bool(xp.all(xp.stack(good))):
        result = method(model, on_host(xp.astype(X, xp.float64)), **options)
        return result if result.dtype.kind == "U" else put(result)
    result = xp.concat(parts) if len(parts) > 1 else parts[0]
    if name != "predict":
        return result
    return labels[on_host(result)] if labels.dtype.kind == "U" else xp.take(put(labels), result)


_KNOWN: WeakKeyDictionary[Finalised[Any], dict[str, _Scores]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class _Scores:
    """The arrays of a formula on a device, with those that distances and decisions need besides."""

    xp: Any
    put: Callable[..., Any]
    formula: ScoreFormula
    features: Any
    arrays: dict[str, Any]

    @classmethod
    def of(cls, state: Finalised[Any], X: Any, model: Any = None) -> _Scores:
        """The arrays of a model where these rows lie; they are put there once."""
        xp, known = array_namespace(X), _KNOWN.setdefault(state, {})
        place = f"{xp.__name__} {device(X)}"
        if place not in known:
            check_float64(X)
            formula, seen = formula_of(state), state.seen
            arrays = {
                "centres": formula.centres,
                "matrices": formula.matrices,
                "constants": formula.constants[None],
            }
            arrays["tails"] = 0.0 * formula.centres if formula.mean_tails is None else formula.mean_tails
            if (linear := getattr(model, "_linear_terms", None)) is not None:
                slopes, centre = np.atleast_2d(linear[0]), seen.gaussians.centre[None]
                arrays |= {"centre": centre, "slopes": slopes.T, "intercepts": linear[1] + centre @ slopes.T}
            normal: Any = seen.densities.parts_with(np.zeros(len(seen.classes)))[0]
            if formula.kind == "linear" and hasattr(normal, "whitening"):
                present = np.searchsorted(state.classes, seen.classes).tolist()
                places = np.concatenate([formula.members[k] for k in present])
                arrays |= {
                    "axes": normal.whitening.matrix,
                    "means": np.zeros((len(formula.constants), normal.whitening.rank)),
                }
                arrays["means"][places] = normal.whitened_means
            if hasattr(state.densities, "squared_distances"):  # infinite for a class without a density
                nowhere = state.densities.squared_distances(np.zeros((1, X.shape[1])))
                arrays["nowhere"] = np.where(np.isinf(nowhere), np.inf, 0.0)
            put = putting(X, xp.float64)
            on_device = {name: put(array) for name, array in arrays.items()}
            known[place] = cls(xp, put, formula, getattr(seen.densities, "features", None), on_device)
        return known[place]

    @property
    def width(self) -> int:
        """How many numbers are made of a row at once."""
        return max(*map(int, self.formula.matrices.shape), len(self.formula.constants))

    def rows(self, X: Any) -> Any:
        """Rows in float64, after the map if there is one."""
        X = self.xp.astype(X, self.xp.float64)
        return X if self.features is None else self.xp.astype(mapped(self.features, X), self.xp.float64)

    def squares(self, rows: Any) -> Any:
        """The squared distances from the means of the subclasses: (n, M)."""
        xp, a, kind = self.xp, self.arrays, self.formula.kind
        whitened, columns = (rows - a["centres"]) @ a["axes"] if kind == "linear" else None, []
        for k in range(len(self.formula.constants)):
            if kind == "linear":
                own = whitened - a["means"][k, :]
            else:
                own, matrix = rows - a["centres"][k, :] - a["tails"][k, :], a["matrices"][k, ...]
                own = own @ matrix if kind == "full" else own * matrix
            columns.append(xp.sum(own * own, axis=1))
        return xp.stack(columns, axis=1)

    def scores(self, rows: Any) -> tuple[Any, Any]:
        """Ln p(x, k), up to a term for each row, and the largest of each row: (n, K), (n, 1)."""
        xp, a = self.xp, self.arrays
        if self.formula.kind == "linear":
            scores = (rows - a["centres"]) @ a["matrices"] + a["constants"]
        else:
            scores = a["constants"] - 0.5 * self.squares(rows)
        scores = self.by_class(scores, lambda own: _log_sum(xp, own))
        return scores, xp.max(scores, axis=1, keepdims=True)

    def by_class(self, values: Any, join: Callable[[Any], Any]) -> Any:
        """Values of the classes (n, K), from those of their subclasses (n, M)."""
        members = self.formula.members
        if len(members) == len(self.formula.constants):
            return values
        return self.xp.stack([join(values[:, int(own[0]) : int(own[-1]) + 1]) for own in members], axis=1)


def _log_sum(xp: Any, values: Any) -> Any:
    """Ln Σ exp(value) of each row."""
    most = xp.max(values, axis=1, keepdims=True)
    most = xp.where(xp.isfinite(most), most, xp.zeros_like(most))
    return xp.log(xp.sum(xp.exp(values - most), axis=1)) + most[:, 0]


def _predict(own: _Scores, X: Any, model: Any) -> tuple[Any, Any]:
    scores, best = own.scores(own.rows(X))
    return own.xp.argmax(scores, axis=1), best


def _log_proba(own: _Scores, X: Any, model: Any) -> tuple[Any, Any]:
    scores, best = own.scores(own.rows(X))
    gaps = (scores - best) / own.formula.calibration.divisor
    return gaps - _log_sum(own.xp, gaps)[:, None], best


def _proba(own: _Scores, X: Any, model: Any) -> tuple[Any, Any]:
    logs, best = _log_proba(own, X, model)
    return own.xp.exp(logs), best


def _set(own: _Scores, X: Any, model: Any, quantile: Any) -> tuple[Any, Any]:
    xp, (logs, best) = own.xp, _log_proba(own, X, model)
    shares, classes = xp.exp(logs), xp.arange(logs.shape[1], device=device(X))[None, :]
    is_best = classes == xp.argmax(logs, axis=1)[:, None]
    beside = xp.sum(xp.where(is_best, 0.0, shares), axis=1, keepdims=True)
    odds = logs - xp.log(
        xp.where(is_best, beside, 1.0 - shares)
    )  # 1 - p of the most likely class would cancel
    return odds >= own.put(np.atleast_1d(checked_quantile(quantile, logs.shape[1]))), best


def _decision(own: _Scores, X: Any, model: Any) -> tuple[Any, Any]:
    a, rows = own.arrays, own.rows(X)
    if "slopes" not in a:
        scores, best = own.scores(rows)
        return decisions(scores / own.formula.calibration.divisor), best
    result = (rows - a["centre"]) @ a["slopes"] + a["intercepts"]
    return (result if result.shape[1] > 1 else result[:, 0]), own.xp.max(result, axis=1)


def _joint_log_proba(own: _Scores, X: Any, model: Any) -> tuple[Any, Any]:
    return own.scores(own.rows(X))


def _mahalanobis(own: _Scores, X: Any, model: Any, relative: bool) -> tuple[Any, Any]:
    rows = own.rows(X)
    squares = own.by_class(own.squares(rows), lambda parts: own.xp.min(parts, axis=1))
    result = squares + own.arrays["nowhere"]
    if not relative:
        return own.xp.sqrt(result), squares
    every = finalised(model).once("of one class", model._as_one_class)
    return result - _Scores.of(every, X).squares(rows), squares


def _transform(own: _Scores, X: Any, model: Any) -> tuple[Any, Any]:
    scalings, centre = own.put(model._components), own.arrays["centre"]
    shift = centre @ scalings if model.solver == "eigen" else 0.0
    result = (own.rows(X) - centre) @ scalings + shift
    kind = model._types.of_products(DeviceRows(X))
    return own.xp.astype(result, getattr(own.xp, str(kind))), result


_ANSWERS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "predict": _predict,
    "predict_proba": _proba,
    "predict_log_proba": _log_proba,
    "predict_joint_log_proba": _joint_log_proba,
    "predict_set": _set,
    "decision_function": _decision,
    "mahalanobis": _mahalanobis,
    "transform": _transform,
}
"""For each method of a model: its answer, and what is finite unless the host is to answer."""
