"""``streamgda search``."""

from __future__ import annotations

import math
import warnings
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from streamgda.blocks.options import check_not_renamed
from streamgda.cli.data import MODELS, Data, to_learn
from streamgda.cli.errors import describe
from streamgda.cli.running import Running, literal, of_library, running_options
from streamgda.cli.saved import check_replaceable, out_option, save_if_named, summary_of
from streamgda.estimators import estimator_named

if TYPE_CHECKING:
    from streamgda.selection.search import StatisticsSearchCV

Grid = dict[str, Any]

_SCORINGS = ("log_likelihood", "accuracy", "neg_log_loss", "neg_brier_score", "roc_auc", "f1_macro")


def _grids(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[Grid]:
    """Grids such as ``qda reg_param=0,0.1 shrinkage=none,0.2``, checked against the estimators."""
    from streamgda.selection.candidates import candidates_of

    missing = Data((), missing=context.params["missing"]).of_models
    try:
        grids = [_grid(missing, *value.split()) for value in values]
        candidates_of(None, grids)
    except ValueError as error:
        raise click.BadParameter(describe(error)) from error
    return grids


def _grid(missing: Any, model: str = "", *params: str) -> Grid:
    if model not in MODELS:
        raise click.BadParameter(f"{model!r} is none of the models {', '.join(MODELS)}.")
    estimator = estimator_named(MODELS[model])(missing=missing)
    grid: Grid = {"estimator": [estimator]}
    for param in params:
        name, is_given, values = param.partition("=")
        name = name.replace("-", "_")
        check_not_renamed(estimator.get_params(), [name], ValueError)
        if not is_given or name.partition("__")[0] not in estimator.get_params(deep=False):
            raise click.BadParameter(f"{param!r} gives no parameter of {model} values, as reg_param=0,0.1.")
        grid[name] = [None if value.lower() == "none" else literal(value) for value in values.split(",")]
    return grid


def _folds(context: click.Context, parameter: click.Parameter, value: str) -> int | str:
    if value == "loo" or (value.isdigit() and int(value) > 1):
        return value if value == "loo" else int(value)
    raise click.BadParameter(f"{value!r} is no number of folds from 2 on, and not loo.")


@click.command()
@to_learn
@click.option(
    "--try",
    "grids",
    metavar="'MODEL PARAMETER=VALUE,VALUE ...'",
    multiple=True,
    required=True,
    callback=_grids,
    help="A model (qda, lda, nb, edda, mda) and the values of its parameters to try, in all combinations. "
    "none is Python's None. Several models may be tried.",
)
@click.option(
    "--cv",
    metavar="N|loo",
    default="5",
    show_default=True,
    callback=_folds,
    help="How many folds; loo leaves out one row at a time.",
)
@click.option(
    "--scoring",
    type=click.Choice(_SCORINGS),
    default=_SCORINGS[0],
    show_default=True,
    help="The joint log-likelihood takes one read of the data, the others two.",
)
@click.option(
    "--groups", metavar="COLUMN", help="A column whose values keep rows in one fold.  [default: none]"
)
@of_library(
    "streamgda.selection.search:StatisticsSearchCV",
    "calibrate",
    sentences=2,
    is_flag=False,
    flag_value="temperature",
)
@click.option("--fold", metavar="COLUMN", help="A column of folds, in place of --cv.  [default: none]")
@out_option("Save the best model of all the rows.  [default: not]")
@running_options
def search(
    data: Data,
    grids: list[Grid],
    cv: int | str,
    scoring: str,
    groups: str | None,
    fold: str | None,
    calibrate: Any,
    out: str | None,
    run: Running,
) -> None:
    """Search for the best model and parameters by cross-validation.

    DATA is as for fit, and is read once, or twice if rows are to be scored, however many candidates
    there are. Greater scores are better. Rows keep their folds when files are added.

    \b
    Examples:
      streamgda search days --target kind --try 'qda reg_param=0,0.01,0.1' --try lda --out best.parquet
      streamgda search days --target kind --try 'nb var_smoothing=1e-9,1e-3' --scoring accuracy --cv 10
      streamgda search days --target kind --groups patient --try 'lda shrinkage=none,0.1,auto'
    """
    from sklearn.exceptions import FitFailedWarning

    from streamgda import StatisticsSearchCV

    if groups and fold:
        raise click.UsageError("--fold names the folds, so there is nothing for --groups to keep together.")
    source = data.without(groups, fold).labelled()
    if out is not None:
        check_replaceable(out, source)
    found = StatisticsSearchCV(
        None, grids, cv=cv, scoring=scoring, groups=groups, fold=fold, calibrate=calibrate
    )
    with run.scheduler_options() as options, warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)  # the table says which candidates failed, and why
        found.fit(source, **options)
    candidates = _candidates(found)
    best = candidates[found.best_index_]
    document = {
        "scoring": scoring,
        "n_splits": found.n_splits_,
        "n_reads": found.n_reads_,
        "best": {"model": best["model"], "params": best["params"], "score": best["mean"]},
        "temperature": found.best_estimator_.temperature,
        "candidates": candidates,
    }
    text = _table_of(found, candidates)
    if out is not None:
        text += f"\n\n{summary_of(found.best_estimator_)}"
    save_if_named(found.best_estimator_, out, run, document, text)


def _candidates(found: StatisticsSearchCV) -> list[dict[str, Any]]:
    """The model, parameters, rank, mean, deviation and error of each candidate."""
    results, names = found.cv_results_, {name: option for option, name in MODELS.items()}
    candidates = []
    for k, params in enumerate(results["params"]):
        given = dict(params)
        candidate = {"model": names[type(given.pop("estimator")).__name__], "params": given}
        candidate |= {name: results[f"{name}_test_score"][k] for name in ("rank", "mean", "std")}
        candidates.append({**candidate, "error": results["fit_error"][k]})
    return candidates


def _table_of(found: StatisticsSearchCV, candidates: list[dict[str, Any]]) -> str:
    """The candidates, the best first; below them, why some have failed."""
    lines = [f"rank {found.scoring:>16} {'±':>9}  candidate"]
    reasons: dict[str, list[str]] = {}
    for one in sorted(candidates, key=itemgetter("rank")):
        params = (f"{name}={'none' if value is None else value}" for name, value in one["params"].items())
        tried = " ".join([one["model"], *params])
        lines.append(f"{one['rank']:4d} {_score(one['mean'], one['std'])}  {tried}")
        if one["error"]:
            reasons.setdefault(one["error"], []).append(tried)
    what = "rows left out one by one" if found.cv == "loo" else f"{found.n_splits_} folds"
    times = "once" if found.n_reads_ == 1 else "twice"
    failed = [f"{', '.join(tried)} failed: {error}" for error, tried in reasons.items()]
    fitted = [f"temperature {found.best_estimator_.temperature:.4g}"] if found.calibrate else []
    return "\n".join([*lines, f"{what}; the data was read {times}", *fitted, *failed])


def _score(mean: float, std: float) -> str:
    """A score and its standard deviation. Leave-one-out has no deviation for some scores."""
    if math.isnan(mean):
        return f"{'failed':>16} {'':>9}"
    return f"{mean:16.6g} {'' if math.isnan(std) else f'{std:.2g}':>9}"
