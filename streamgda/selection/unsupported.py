"""Parameters of scikit-learn that have another name here, or no use."""

from __future__ import annotations

from collections.abc import Iterable

_INSTEAD = {
    "n_jobs": "tasks run in parallel on Dask's threads; scheduler= chooses processes or a cluster",
    "pre_dispatch": "Dask schedules the tasks; scheduler= chooses where",
    "verbose": "progress=True shows how far a read is",
    "return_train_score": "learning_curve and refitting score the rows learnt",
    "return_estimator": "best_estimator_ is made of all the rows, and from_statistics makes others",
    "train_sizes": "n_parts= gives the numbers of folds to learn from, and cv= how many there are",
    "shuffle": "rows get their folds by a hash of their place, which is random already",
    "random_state": "rows get their folds by a hash of their place, which is the same each time",
    "fit_params": "sample_weight= gives weights",
    "params": "sample_weight= gives weights",
    "groups": "give it to StatisticsSearchCV(..., groups=...)",
    "fold": "give it to StatisticsSearchCV(..., fold=...)",
}


def check_supported(name: str, given: Iterable[str]) -> None:
    """Raise TypeError for a parameter that a function or class does not take, and say what does its work."""
    for parameter in given:
        hint = _INSTEAD.get(parameter)
        raise TypeError(f"{name} takes no parameter {parameter!r}" + (f": {hint}" if hint else ""))
