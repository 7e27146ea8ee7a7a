"""Leaves of trees beside boosting: a fit, and a refresh with new rows, old ones taken out and a late class.

Run as ``python -m bench.leaves``, with Covertype in the folder that `STREAMGDA_DATA` names; without it, rows
are made at random. Times are those of the processor, with one thread. A refresh is that of one model: a state
of each tenth of the rows, their merge, and the last tenth added to a model of the others, with a solution and
the predictions of the test rows. Boosting is trained anew for it.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

from bench import report
from bench.arguments import parser_of
from bench.contest import limit_threads

limit_threads(1)

import lightgbm
import numpy as np
import xgboost
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from bench.models import Split, splits
from streamgda import LeafClassifier, LeafFeatures
from streamgda.extensions.leaves.rule import LeafRows

DAY = 10_000  # rows, of which a ledger keeps a state
LATE = 3  # the class that comes in the last half only


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and the seconds of the processor that it takes."""
    start = time.process_time()
    return call(), time.process_time() - start


def rows_of(most: int) -> Split:
    """Covertype, or rows at random where it is not there."""
    known = {name: drawn[0] for name, drawn in splits(1, most)}
    if "covtype" in known:
        return known["covtype"]
    X, y = make_classification(2 * most, 12, n_informative=9, n_classes=5, random_state=0)
    return Split(X[:most], y[:most], X[most:], y[most:])


def peers(n_trees: int) -> dict[str, Callable[[], Any]]:
    """The peers, by name."""
    of_lightgbm = {"random_state": 0, "n_jobs": 1, "verbosity": -1}
    return {
        "random forest": lambda: RandomForestClassifier(random_state=0),
        "LightGBM": lambda: lightgbm.LGBMClassifier(**of_lightgbm),
        f"LightGBM, {n_trees} trees": lambda: lightgbm.LGBMClassifier(n_estimators=n_trees, **of_lightgbm),
        "XGBoost": lambda: xgboost.XGBClassifier(random_state=0, n_jobs=1),
        f"XGBoost, {n_trees} trees of depth 10": lambda: xgboost.XGBClassifier(
            n_estimators=n_trees, max_depth=10, random_state=0, n_jobs=1
        ),
    }


Fit = tuple[float, float, float]
"""The error, the log loss and the seconds of a fit."""

_MODELS: dict[str, Callable[[], Any]] = {}  # which the processes inherit that are forked
_ROWS: list[Split] = []


def _fitted(name: str) -> Fit:
    (split,), make = _ROWS, _MODELS[name]
    model, seconds = timed(lambda: make().fit(split.X, split.y))
    p = model.predict_proba(split.X_test)
    own = p[np.arange(len(p)), np.searchsorted(model.classes_, split.y_test)]
    wrong = model.classes_[p.argmax(axis=1)] != split.y_test
    return float(wrong.mean()), float(-np.log(np.maximum(own, 2.0**-52)).mean()), seconds


def fits(split: Split, seeds: int, leaves: int, n_trees: int) -> dict[str, Fit]:
    """How good fits are and how long they take; those that take long come first."""
    many = 10 * leaves // 3
    _MODELS.update(reversed(peers(n_trees).items()))
    _MODELS[f"16 × {many:,} leaves, grown on all rows"] = _leaves(16, many, 0, split)
    _MODELS["LeafClassifier()"] = LeafClassifier
    _MODELS.update({f"8 × {leaves:,} leaves, seed {s}": _leaves(8, leaves, s) for s in range(seeds)})
    _ROWS[:] = [split]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return dict(zip(_MODELS, pool.map(_fitted, _MODELS, chunksize=1), strict=True))


def _leaves(n_trees: int, leaves: int, seed: int, grown_on: Split | None = None) -> Callable[[], Any]:
    features: Any = LeafFeatures(n_trees, leaves, random_state=seed)
    if grown_on is None:
        return lambda: LeafClassifier(features=features)
    return lambda: LeafClassifier(features=FrozenEstimator(features.fit(grown_on.X, grown_on.y)))


def refresh(split: Split, leaves: int, make: Callable[[], Any]) -> tuple[str, list[Any]]:
    """Times, errors and sizes of a refresh, beside those of a booster that is trained anew."""
    X, y = split.X, split.y
    features = LeafFeatures(8, leaves).fit(X[: len(X) // 2], y[: len(X) // 2])
    forest, rule, parts = FrozenEstimator(features), LeafRows(features), np.array_split(np.arange(len(X)), 10)
    states, of_states = timed(lambda: [rule.empty().update(X[own], y[own]) for own in parts])
    whole, of_merge = timed(lambda: reduce(add, states[1:], states[0].copy()))
    first = np.concatenate(parts[:9])
    nine = LeafClassifier(features=forest, alpha=3.0).fit(X[first], y[first])
    before = _errors(nine, split)
    added, of_adding = timed(lambda: _errors(nine.partial_fit(X[parts[9]], y[parts[9]]), split))
    rest, of_taking = timed(lambda: whole - states[9])
    taken, of_model = timed(
        lambda: _errors(LeafClassifier.from_statistics(rest, features=forest, alpha=3.0), split)
    )
    of_taking += of_model
    same = rest == reduce(add, states[8::-1]) and nine.statistics_ == whole
    is_early = np.repeat([True] * 5 + [False] * 5, [len(own) for own in parts])
    seen = np.flatnonzero(~is_early | (y != LATE))
    late = LeafClassifier(features=forest, alpha=3.0).fit(X[seen[is_early[seen]]], y[seen[is_early[seen]]])
    of_late = timed(lambda: [late.partial_fit(X[own], y[own]) for own in parts[5:]] and late.coef_)[1]
    day = len(rule.empty().update(X[:DAY], y[:DAY]).to_bytes()) - len(rule.empty().to_bytes())

    def anew(rows: Any) -> tuple[Any, float]:
        return timed(lambda: make().fit(X[rows], y[rows]))

    fitted = [anew(rows) for rows in (slice(None), first, seen)]
    found = [(model, _errors(model, split), seconds) for model, seconds in fitted]
    rows = [
        ("a tenth added, solved and predicted", _text(added, of_adding), _text(*found[0][1:])),
        ("a tenth taken out, solved and predicted", _text(taken, of_taking), _text(*found[1][1:])),
        (
            "a class in the last half only: five batches",
            _text(_errors(late, split), of_late),
            _text(*found[2][1:]),
        ),
        ("errors of rows of that class", _late_errors(late, split), _late_errors(found[2][0], split)),
    ]
    headers = ["refresh: error, processor s", "leaves", f"LightGBM, {make().n_estimators} trees, anew"]
    facts = (
        f"Ten states take {of_states:.1f} s, their merge {of_merge:.2f} s. They have the same bits in "
        f"any order, and when a tenth is taken out: {'yes' if same else 'no'}. Before the last tenth "
        f"the error is {before:.4f}. A state of {DAY:,} rows has {day / 1e6:.2f} MB without the forest."
    )
    return f"{report.table(headers, rows)}\n\n{facts}", [
        report.at_most("a tenth added ÷ LightGBM anew, many trees", of_adding / found[0][2], 0.1),
        report.at_most("a state of a day, MB", day / 1e6, 1.0),
    ]


def _errors(model: Any, split: Split) -> float:
    return float(np.mean(model.predict(split.X_test) != split.y_test))


def _late_errors(model: Any, split: Split) -> str:
    """The share of the rows of the late class that a model takes for another."""
    is_late = split.y_test == LATE
    return f"{np.mean(model.predict(split.X_test[is_late]) != LATE):.3f}"


def _text(error: float, seconds: float) -> str:
    return f"{error:.4f}, {seconds:.1f}"


def main() -> None:
    """Measure and keep the tables."""
    options = parser_of(__doc__, most=400_000, leaves=6_000, trees=300, seeds=5).parse_args()
    split = rows_of(options.most)
    found = fits(split, options.seeds, options.leaves, options.trees)
    rows = [
        (name, f"{error:.4f}", f"{loss:.3f}", f"{seconds:.1f}")
        for name, (error, loss, seconds) in found.items()
    ]
    headers = [f"{len(split.y):,} rows", "error", "log loss", "processor s to learn"]
    table, goals = refresh(split, options.leaves, peers(options.trees)[f"LightGBM, {options.trees} trees"])
    (name,) = (name for name in found if name.startswith("16"))
    for fit, limits in (("LeafClassifier()", (0.060, 0.22, 15)), (name, (0.036, None, 100))):
        words = "error", "log loss", "processor s"
        goals += [
            report.at_most(f"{fit}: {word}", value, limit)
            for word, value, limit in zip(words, found[fit], limits, strict=True)
            if limit is not None
        ]
    title = "leaves of trees beside boosting, and a refresh"
    tables = f"{report.table(headers, rows[::-1])}\n\n{table}"
    report.publish("leaves", title, tables, report.Goals(goals), keep=not options.print_only)


if __name__ == "__main__":
    main()
