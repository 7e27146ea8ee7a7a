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


def boosters(n_trees: int) -> dict[str, Callable[[], Any]]:
    """The peers, by name."""
    of_lightgbm = {"random_state": 0, "n_jobs": 1, "verbosity": -1}
    return {
        "LightGBM": lambda: lightgbm.LGBMClassifier(**of_lightgbm),
        f"LightGBM, {n_trees} trees": lambda: lightgbm.LGBMClassifier(n_estimators=n_trees, **of_lightgbm),
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
    _MODELS.update(reversed(boosters(n_trees).items()))
    _MODELS[f"16 × {many:,} leaves, grown on all rows"] = _leaves(16, many, 0, split)
    _MODELS.update({f"8 × {leaves:,} leaves, seed {s}": _leaves(8, leaves, s) for s in range(seeds)})
    _ROWS[:] = [split]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return dict(zip(_MODELS, pool.map(_fitted, _MODELS, chunksize=1), strict=True))


def _leaves(n_trees: int, leaves: int, seed: int, grown_on: Split | None = None) -> Callable[[], Any]:
    features: Any = LeafFeatures(n_trees, leaves, random_state=seed)
    if grown_on is None:
        return lambda: LeafClassifier(features=features)
    return lambda: LeafClassifier(features=FrozenEstimator(features.fit(grown_on.X, grown_on.y)))


def refresh(split: Split, leaves: int, anew: float) -> tuple[str, report.Goals]:
    """Times, errors and sizes of a refresh, and its goals beside the seconds of a booster trained anew."""
    X, y = split.X, split.y
    features = LeafFeatures(8, leaves).fit(X[: len(X) // 2], y[: len(X) // 2])
    forest, rule, parts = FrozenEstimator(features), LeafRows(features), np.array_split(np.arange(len(X)), 10)
    states, of_states = timed(lambda: [rule.empty().update(X[own], y[own]) for own in parts])
    whole, of_merge = timed(lambda: reduce(add, states[1:], states[0].copy()))
    nine = LeafClassifier(features=forest, alpha=3.0)
    nine.fit(X[: parts[9][0]], y[: parts[9][0]])
    before = nine.score(split.X_test, split.y_test)
    after, of_refresh = timed(lambda: nine.partial_fit(X[parts[9]], y[parts[9]]).predict(split.X_test))
    rest, of_taking = timed(lambda: whole - states[9])
    same = rest == reduce(add, states[8::-1]) and nine.statistics_ == whole
    early = np.concatenate([parts[i][y[parts[i]] != LATE] for i in range(5)])
    late = LeafClassifier(features=forest, alpha=3.0).fit(X[early], y[early])
    for own in parts[5:]:
        late.partial_fit(X[own], y[own])
    is_late = split.y_test == LATE
    missed = 1 - late.score(split.X_test[is_late], split.y_test[is_late])
    day = len(rule.empty().update(X[:DAY], y[:DAY]).to_bytes()) - len(rule.empty().to_bytes())
    error = np.mean(after != split.y_test)
    rows = [
        ("ten states", f"{of_states:.1f} s"),
        ("their merge", f"{of_merge:.2f} s"),
        ("a tenth added, solved and predicted", f"{of_refresh:.1f} s, error {1 - before:.4f} to {error:.4f}"),
        ("a tenth taken out", f"{of_taking:.2f} s"),
        ("the same bits in any order, and taken out", "yes" if same else "no"),
        ("a class in the last half only: all errors", f"{1 - late.score(split.X_test, split.y_test):.4f}"),
        ("errors of its own rows", f"{missed:.3f}"),
        (f"a state of {DAY:,} rows, without the forest", f"{day / 1e6:.2f} MB"),
    ]
    added = report.at_most("a tenth added ÷ LightGBM anew, many trees", of_refresh / anew, 0.1)
    goals = report.Goals([added, report.at_most("a state of a day, MB", day / 1e6, 1.0)])
    return report.table(["refresh", ""], rows), goals


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
    table, goals = refresh(split, options.leaves, found[f"LightGBM, {options.trees} trees"][2])
    title = "leaves of trees beside boosting, and a refresh"
    tables = f"{report.table(headers, rows[::-1])}\n\n{table}"
    report.publish("leaves", title, tables, goals, keep=not options.print_only)


if __name__ == "__main__":
    main()
