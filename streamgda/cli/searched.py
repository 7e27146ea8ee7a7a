"""What a search has found, as a table and as a document."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from streamgda.cli.models import MODELS
from streamgda.cli.wording import in_shell_words

if TYPE_CHECKING:
    from streamgda.selection.search import StatisticsSearchCV


def document_of(found: StatisticsSearchCV) -> dict[str, Any]:
    """How the search was made, the best candidate, and all of them."""
    candidates = [
        {"model": model, "params": params, "rank": rank, "mean": mean, "std": std, "error": error}
        for model, params, rank, mean, std, error in _rows(found)
    ]
    best = candidates[found.best_index_]
    return {
        "scoring": found.scoring,
        "n_splits": found.n_splits_,
        "n_reads": found.n_reads_,
        "best": {"model": best["model"], "params": best["params"], "score": best["mean"]},
        "candidates": candidates,
    }


def table_of(found: StatisticsSearchCV) -> str:
    """The candidates, the best first; below them, why some have failed."""
    rows = sorted(_rows(found), key=lambda row: int(row[2]))
    lines = [f"rank {found.scoring:>16} {'±':>9}  candidate"]
    reasons: dict[str, list[str]] = {}
    for model, params, rank, mean, std, error in rows:
        candidate = " ".join([model, *(f"{name}={_shown(value)}" for name, value in params.items())])
        lines.append(f"{rank:4d} {_score(mean, std)}  {candidate}")
        if error:
            reasons.setdefault(error, []).append(candidate)
    what = "rows left out one by one" if found.cv == "loo" else f"{found.n_splits_} folds"
    times = "once" if found.n_reads_ == 1 else "twice"
    failed = [f"{', '.join(candidates)} failed: {error}" for error, candidates in reasons.items()]
    return "\n".join([*lines, f"{what}; the data was read {times}", *failed])


def _rows(found: StatisticsSearchCV) -> list[tuple[Any, ...]]:
    """The model, parameters, rank, mean, deviation and error of each candidate."""
    results, names = found.cv_results_, {name: option for option, name in MODELS.items()}
    columns = ("rank_test_score", "mean_test_score", "std_test_score", "fit_error")
    return [
        (
            names[type(params["estimator"]).__name__],
            {name: value for name, value in params.items() if name != "estimator"},
            *numbers,
            in_shell_words(error, as_tried=True),
        )
        for params, *numbers, error in zip(
            results["params"], *(results[name] for name in columns), strict=True
        )
    ]


def _score(mean: float, std: float) -> str:
    """A score and its deviation, which is not known of all scores of rows left out one by one."""
    if math.isnan(mean):
        return f"{'failed':>16} {'':>9}"
    return f"{mean:16.6g} {'' if math.isnan(std) else f'{std:.2g}':>9}"


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
