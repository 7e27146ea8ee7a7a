"""Sources, models and ledgers, as the options of a command say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import click
import joblib
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import streamgda as sg
from streamgda.cli.errors import describe
from streamgda.cli.main import MODELS, given
from streamgda.cli.words import flag
from streamgda.data.sources.base import Source
from streamgda.data.storage.paths import shown
from streamgda.jobs.ledger.ledger import options_of, scan_options_of
from streamgda.jobs.passes.accumulate import read_into
from streamgda.jobs.scoring.inference import columns_of, maps_and_model
from streamgda.statistics.base import Statistics
from streamgda.statistics.rules import RowRule


def source_of(
    data: Sequence[str],
    saved: Any = None,
    *,
    without: Sequence[str] = (),
    is_labelled: bool = True,
    known: Mapping[str, Any] = {},
) -> Source:
    """The source of rows to learn or to score: of the columns of what is saved, unless the user names some.

    `without` names columns that are no features by default.
    """
    options = given("scan_parquet")
    path = data[0] if len(data) == 1 else data  # one folder may have partitions
    if not isinstance(options.get("missing", ""), str):
        options["missing"] = "marginal"  # models know more of it
    if any(".zarr/" in f"{path}/" for path in data):
        options |= {} if is_labelled else {"target": None}
        return sg.scan_zarr(path, **{**options, "features": ",".join(options.get("features", ["X"]))})
    if not options.keys() & {"features", "exclude", "categories"}:
        options = {**scan_options_of(known), **options}
    if is_labelled and "target" not in options:
        raise click.UsageError("Missing option '--target': the column of labels.")
    if names := options.get("categories"):
        options["categories"] = {"auto": "auto", "none": None}.get(",".join(names), sg.Categorical(names))
    if saved is not None:
        options = {**dict(zip(("features", "categories"), columns_of(saved), strict=True)), **options}
    if not options.get("features"):
        options["exclude"] = [*options.get("exclude", ()), *without]
    source = sg.scan(path, **{**options, **given("scan")})
    known_by = None if saved is None else maps_and_model(saved)[1]
    return source if saved is None else source.with_kinds_of(getattr(known_by, "statistics_", known_by))


def part_of(data: Sequence[str], *, is_test: bool, saved: Any = None, without: Sequence[str] = ()) -> Source:
    """The source of the rows to learn from or to judge by: all of them, unless the user splits them."""
    options = given("split")
    columns = {options.get("by", "rows")} - {"rows", "files"}
    source = source_of(data, saved, without=[*without, *columns])
    return source.split(**options)[is_test] if options else source


# ---------------------------------------------------------------------- models


def _missing_of(model: Any) -> dict[str, Any]:
    """What ``--missing`` says to a model, to which rows that are left out do not come."""
    missing = given("scan_parquet").get("missing", "raise")
    missing = "raise" if missing == "drop" else missing
    if "missing" in model.get_params(deep=False):
        return {"missing": missing}
    if missing != "raise":
        name = {kind: option for option, kind in MODELS.items()}[type(model).__name__]
        raise click.UsageError(
            f"{name} takes complete rows alone, so no --missing marginal: set --missing drop."
        )
    return {}


def new_model(option: str = "", known: Any = None) -> tuple[Any, Callable[..., Any], Any]:
    """A new estimator by the options of the user, what makes it of statistics, and its `missing`.

    Parameters that no option sets are those of `known`, if it is given.
    """
    params = dict(given("model"))
    named = option or params.pop("model", "qda")
    kind = getattr(sg, MODELS[named]) if known is None else type(known)
    missing = _missing_of(kind()).get("missing", "raise")
    params |= {} if missing == "raise" else {"missing": missing}
    params = params if known is None else {**known.get_params(deep=False), **params}
    try:
        estimator = kind().set_params(**params)
        estimator._validate_params()
    except ValueError as error:
        raise click.UsageError(describe(error)) from error
    return estimator, partial(kind.from_statistics, **params), missing


def model_to_relearn(out: str | None) -> Any:
    """The model that a refresh learns anew, unfitted; None if there is none, or options choose another."""
    if out is None or "model" in given("model"):
        return None
    other = "choose a model with --model, or another --out"
    try:
        saved = sg.load(out)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{describe(error)}; {other}") from error
    if isinstance(saved, Statistics | Pipeline):
        holds = "statistics" if isinstance(saved, Statistics) else "a pipeline"
        raise ValueError(f"{shown(out)} holds {holds}, and refresh learns a model anew; {other}")
    return clone(saved)


def loaded_model(path: str) -> Any:
    """A model, or a pipeline that ends in one or a search from a file of joblib, which gets ``--missing``."""
    saved = (joblib.load if path.endswith(".joblib") else sg.load_model)(path)
    if "missing" in given("scan_parquet"):
        model = maps_and_model(saved)[1]
        model.set_params(**_missing_of(model))
    return saved


def rule_of(estimator: Any, source: Source, **run: Any) -> RowRule | None:
    """The rule by which a model divides or maps the rows of a source, which may take a read of it."""
    source = source.pinned()
    read = partial(read_into, source, **run)
    (rule,), _ = estimator.rules_for([estimator], read, source, run["scheduler"])
    return cast("RowRule | None", rule)


# ---------------------------------------------------------------------- ledgers


def ledger_at(path: str, **new: Any) -> sg.StatisticsLedger:
    """A ledger with the options with which it was made, or a new one with other options."""
    try:
        kept = options_of(sg.StatisticsLedger(path).read_options)
    except ValueError:  # it is new, or damaged, which the refresh that follows reports
        kept = new
    return sg.StatisticsLedger(path, **{**kept, **given("ledger")})


def ledger_for(path: str, estimator: Any, source: Source, is_new: bool, **run: Any) -> sg.StatisticsLedger:
    """A ledger that keeps what a model is made of; ValueError if it was made for another, or keeps less."""
    needed, new = estimator.required_statistics(), {}
    extra = [name for name, value in needed.keywords().items() if value is True]
    if is_new and not given("refresh").get("dry_run"):
        rule = rule_of(estimator, source, **run)
        new = {"rule": rule} | ({} if rule is None else {"covariance_type": needed.covariance_type})
    kept = ledger_at(path, **dict.fromkeys(extra, True), **new)
    is_of_mapped_rows = kept.rule is not None and kept.rule.schema is not None
    needs_rule = estimator.maps_rows or estimator.divides_rows
    if not is_new and (kept.rule is None if needs_rule else is_of_mapped_rows):
        raise ValueError(
            f"{kept!r} was made for another model: choose that with --model, or refresh another ledger, with "
            "this --model and --out"
        )
    if not kept.required.suffices(needed):
        raise ValueError(
            f"{kept!r} keeps less than the model needs: refresh another ledger, with --covariance-type "
            f"{needed.covariance_type} {' '.join(map(flag, extra))}".rstrip()
            + ", or choose another --model or --shrinkage"
        )
    return kept
