"""The functions of the commands. Their docstrings are the help, and say whose parameters are options too."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import click
import joblib
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import streamgda as sg
from streamgda.cli.errors import Refused, Skipped, describe
from streamgda.cli.main import MODELS, given, value_of
from streamgda.cli.running import report, running
from streamgda.cli.words import as_options, flag
from streamgda.data.blocks.wording import counted
from streamgda.data.sources.base import FileSource, Source
from streamgda.data.sources.files.formats import dataset_at
from streamgda.data.storage import tables
from streamgda.data.storage.documents import is_saved
from streamgda.data.storage.filesystems import resolve
from streamgda.data.storage.paths import one_line, shown
from streamgda.diagnostics import box_m, manova
from streamgda.jobs.ledger.ledger import ENTRIES, LEDGER, options_of, scan_options_of
from streamgda.jobs.passes.accumulate import read_into
from streamgda.jobs.scoring.inference import columns_of, maps_and_model, with_features_of
from streamgda.jobs.selection.candidates import candidates_of
from streamgda.models.estimators.forgetting import factor_after, newest_and_weights
from streamgda.statistics.base import Statistics
from streamgda.statistics.rules import RowRule

Paths: TypeAlias = Sequence[str]
Out: TypeAlias = str | None

_TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")


def fit(data: Paths, *, out: str, statistics: bool = False, sql: str | None = None) -> None:
    """Learn a model from labelled data.

    Data of any size is read once, in bounded memory; with --missing marginal, up to ten times (or max_reads),
    if the rows have very many patterns of missing features.

    DATA is a file, folder, glob or URL, or several of them, of Parquet, CSV, JSON lines, Feather or ORC, as
    their names tell; or a Zarr store, whose name ends in .zarr. The model is saved as a small Parquet file.
    It replaces a model that is there, but no other file.

    If no model can be made from the data, for example because a covariance is singular, the statistics are
    saved beside the output file. The error says how to go on without reading the data again.

    With --test 0.2 or --by, it learns from one part of the data alone. With the same options, evaluate
    judges by the other part.

    With --sql, DATA is the name of a table or a SELECT. The database sums up the rows, and none leaves it.

    Parameters
    ----------
    out
        Where to save: a file or a URL.
    statistics
        Save the statistics that a model is made of, and no model; merge makes models of them.
    sql
        The database in which DATA lies: postgresql://user@host/database, or sqlite:// or duckdb:// with the
        path of a file.

    Other Parameters
    ----------------
    scan
    scan_parquet
    accumulate
    run
    split
    model

    Examples
    --------
    streamgda fit monday.parquet --target kind --features length,width --out model.parquet
    streamgda fit days --target kind --filter 'day>=3' --model lda --out model.parquet
    streamgda fit flowers.zarr --model nb --out s3://bucket/model.parquet
    streamgda fit flowers --sql duckdb://garden.duckdb --target kind --out model.parquet
    """
    estimator, build, missing = _model_of()
    source = None if sql else _part_of(data, is_test=False)
    _check_replaceable(out, source)
    run, kept = running(), estimator.required_statistics().keywords()
    if source is None:
        learnt = _of_database(sql, data, estimator, kept)
    elif estimator.maps_rows and not statistics:  # it is calibrated by a sample of the rows that it reads
        if how := given("accumulate"):
            raise click.UsageError(
                f"{' '.join(map(flag, how))} of --model {given('model')['model']} takes --statistics too."
            )
        _save(estimator.fit(source, **run), out)
        return
    else:
        kept["missing"] = None if statistics and isinstance(missing, str) else missing  # None: read once
        kept["rule"] = _rule_of(estimator, source, **run)
        learnt = sg.accumulate(source, **given("accumulate"), **kept, **run)
    try:
        saved = learnt if statistics else build(learnt)
    except ValueError as error:
        beside = f"{out.removesuffix(Path(out).suffix)}.statistics.parquet"
        _, fault = _tried(partial(learnt.save, beside))
        ways = f"streamgda merge {beside} --model ... --out {out}, or streamgda update {beside} DATA ..."
        said = fault or f"The statistics are saved in {beside}; go on by {ways}"
        raise ValueError(f"{describe(error)}. {said}") from error
    _save(saved, out)


def _of_database(sql: str | None, data: Paths, estimator: Any, kept: Mapping[str, Any]) -> Statistics:
    """The statistics of a table or a SELECT. What a database does not do is an error."""
    options = given("scan_parquet")
    columns = {
        name: options.pop(name) for name in ("target", "features", "weight", "missing") if name in options
    }
    others = [*options, *(name for place in ("scan", "split", "accumulate", "run") for name in given(place))]
    if others:
        raise click.UsageError(
            f"--sql takes no {', '.join(map(flag, others))}: write a SELECT, if it can say so."
        )
    if len(data) > 1 or "target" not in columns:
        raise click.UsageError("--sql takes one table or SELECT, and --target, the column of labels.")
    needs = [name for name in ("exact", "fourth_moments") if kept[name]]
    if needs or estimator.maps_rows or estimator.divides_rows:
        raise click.UsageError(f"{estimator!r} needs more than the sums of a database: choose another model.")
    return sg.accumulate_sql(sql, data[0], covariance_type=kept["covariance_type"], **columns)


def search(data: Paths, *, tried: Paths, out: Out = None) -> None:
    """Search for the best model and parameters by cross-validation.

    DATA is as for fit, and is read once, or twice if rows are to be scored, however many candidates
    there are. Greater scores are better. Rows keep their folds when files are added. With --test or --by, the
    test part is left out, as fit does.

    Parameters
    ----------
    tried
        A model (qda, lda, nb, edda, mda, ridge, leaves, random-features) and the values of its parameters to
        try, in all combinations, such as 'qda reg_param=0,0.1'; none is Python's None, and several models may
        be tried.
    out
        Where to save the best model of all the rows, if at all.

    Other Parameters
    ----------------
    search
    scan
    scan_parquet
    run
    split

    Examples
    --------
    streamgda search days --target kind --try 'qda reg_param=0,0.01,0.1' --try lda --out best.parquet
    streamgda search days --target kind --try 'nb var_smoothing=1e-9,1e-3' --scoring accuracy --cv 10
    streamgda search days --target kind --groups patient --try 'lda shrinkage=none,0.1,auto'
    """
    options, grids = given("search"), [_grid(*text.split()) for text in tried]
    if (fault := _tried(partial(candidates_of, None, grids))[1]) is not None:
        raise click.UsageError(f"Invalid value for '--try': {fault}")
    without = [options[name] for name in ("groups", "fold") if name in options]
    source = _part_of(data, is_test=False, without=without)
    _check_replaceable(out, source)
    found = sg.StatisticsSearchCV(None, grids, **options)
    found.fit(source, **running())
    if out is not None:
        found.best_estimator_.save(out)
    names, table = {name: option for option, name in MODELS.items()}, pd.DataFrame(found.cv_results_)
    table["model"] = [names[type(params["estimator"]).__name__] for params in table["params"]]
    table["params"] = [{k: v for k, v in p.items() if k != "estimator"} for p in table["params"]]
    table = table.rename(columns=lambda name: name.removesuffix("_test_score").removeprefix("fit_"))
    table["error"] = table["error"].map(as_options)
    columns = ["rank", "mean", "std", "model", "params", *table.columns.intersection(["temperature"])]
    columns += ["error"] if any(table["error"]) else []
    candidates = table[columns].sort_values("rank", kind="stable")
    facts = {"scoring": found.scoring, "n_splits": found.n_splits_, "n_reads": found.n_reads_}
    best = table.loc[found.best_index_]
    facts["best"] = {"model": best["model"], "params": best["params"], "score": float(best["mean"])}
    facts |= {"temperature": found.best_estimator_.temperature, "candidates": candidates}
    report({**facts, "out": out and shown(out)}, is_result=out is None)


def _grid(model: str = "", *params: str) -> dict[str, Any]:
    click.Choice(list(MODELS)).convert(model, None, None)
    pairs = [param.partition("=") for param in params]
    values = {name.replace("-", "_"): [*map(value_of, values.split(","))] for name, _, values in pairs}
    return {"estimator": [_model_of(model)[0]], **values}


def update(saved_in: str, data: Paths, *, out: Out = None, force: bool = False) -> None:
    """Let a saved model learn from more data.

    SAVED_IN is a model, or statistics. The result is the same as one fit to all the data; a model with a
    half-life forgets old rows by as many as it learns. The file is replaced in one piece at the end, and
    stays as it was after an error. Data that the model has learnt before would count twice; to keep up with
    files that come, change and go, use refresh. A model that can predict is not replaced by one that cannot.

    Parameters
    ----------
    out
        Where to save, if not in place of the model.
    force
        Replace a model even by one that cannot predict.

    Other Parameters
    ----------------
    scan
    scan_parquet : but exclude, categories
    accumulate
    run

    Examples
    --------
    streamgda update model.parquet wednesday.parquet --target kind
    """
    saved, place = sg.load(saved_in), out or saved_in
    statistics = getattr(saved, "statistics_", saved)
    source, (maps, model) = _source_of(data, saved), maps_and_model(saved)
    source = source if maps is None else with_features_of(model, source, maps)
    _check_replaceable(place, source)
    kept = {**statistics.required.keywords(), "rule": statistics.rule}
    if half_life := getattr(model, "half_life", None):
        newest_and_weights(model, None, None, in_memory=False)  # raises if batches before had times
    new = sg.accumulate(source, **given("accumulate"), **kept, **running())
    if half_life:
        statistics.decay(factor_after(new.n_rows / half_life))
    before, _ = _fault_of(saved), model.merge(new)
    if place == saved_in and not force and not before and (fault := _fault_of(saved)):
        raise ValueError(
            f"{place} could not predict any more: {fault}. It is as it was; see --out and --force"
        )
    _save(saved, place, rows_learnt=new.n_rows, rows_dropped=new.n_dropped)


def merge(files: Paths, *, out: str) -> None:
    """Add up models or statistics of different data.

    FILES are what fit, update, merge or refresh have saved. The sum is of the same kind as the files, with
    the parameters of the first. With --model, a model is made of their statistics; thus a single file of
    statistics can become a model.

    Parameters
    ----------
    out
        Where to save: a file or a URL.

    Other Parameters
    ----------------
    model : but products, calibration, calibration_rows

    Examples
    --------
    streamgda merge monday.parquet tuesday.parquet --out week.parquet
    streamgda merge statistics.parquet --model lda --shrinkage 0.1 --out model.parquet
    """
    if given("model") and "model" not in given("model"):
        raise click.UsageError("Parameters are those of a model: choose one with --model.")
    _, build, _ = _model_of()
    if len({file if "://" in file else str(Path(file).resolve()) for file in files}) < len(files):
        raise click.UsageError("A file is named twice: its rows would count twice.")
    _check_replaceable(out)
    load = sg.load_statistics if given("model") else sg.load
    total: Any = load(files[0])
    for file in files[1:]:
        try:
            total = total.merge(load(file))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{shown(file)} cannot be added to {shown(files[0])}: {describe(error)}"
            ) from error
    _save(build(total) if given("model") else total, out)


def refresh(ledger: str, data: Paths, *, out: Out = None, leave_out: Paths = (), html: Out = None) -> None:
    """Keep up with a dataset whose files come, change and go.

    LEDGER is a folder of small statistics, one entry for each file of DATA; it is made if there is none.
    DATA are files as for fit. Files that are new or have changed are read, those that are gone are
    dropped, and the report says how far the new rows lie from the old. A refresh that is killed or
    interrupted changes nothing; the next one goes on.

    With --max-shift and the like, nothing changes if a new file lies too far from what is held. The report
    names the file, and the exit code is 3. With --accept it counts nevertheless, and with --leave-out it does
    not, and the others do.

    A ledger knows its target, features and categories, and reads later files by them if no options say
    otherwise. A file that does not fit is an error that names it; with --on-error skip it is left out, the
    others are learnt, and the exit code is 4.

    Without --model, a model that is at --out is learnt anew: it keeps its kind, and its parameters unless
    options name others. With --model, a new one takes its place.

    Parameters
    ----------
    out
        Where to save a model of the files of the ledger, if at all.
    leave_out
        A file that is not to count in this refresh, by its path as reported: name it each time.
    html
        A file to write the report to as a page of HTML too.

    Other Parameters
    ----------------
    scan
    scan_parquet
    ledger
    refresh
    alarms
    run
    model : but half_life, calibration, calibration_rows

    Examples
    --------
    streamgda refresh ledger days --target kind --max-shift 1 --out model.parquet
    """
    if out is None and given("model"):
        raise click.UsageError("--model and the like are for the model that --out saves.")
    _check_replaceable(out)  # before it is loaded; below, that it lies outside the data
    estimator, build, missing = _model_of(known=_model_at(out))
    known, _ = _tried(lambda: sg.StatisticsLedger(ledger).read_options)
    groups = given("ledger").get("groups")
    source = _source_of(data, known=known or {}, without=[groups] if groups else [])
    _check_replaceable(out, source)
    run = running()
    kept = _ledger_for(ledger, estimator, source, known is None, **run) if out else _ledger_at(ledger)
    kept.missing = None if isinstance(missing, str) else missing
    how = {**given("refresh"), **given("alarms"), **run}
    found, saved = kept.refresh(source, exclude=leave_out, **how), None
    try:
        if out is not None and not found.dry_run and not found.is_refused:
            model = build(kept.statistics())
            model.save(out)
            saved = out
            if getattr(model, "calibration", None) is not None and model.temperature == 1:
                warnings.warn(
                    f"{shown(out)} is made of statistics, so its probabilities are not calibrated as by fit: "
                    "set --temperature to the best_temperature that evaluate --json tells of rows that it "
                    "has not learnt",
                    stacklevel=1,
                )
    finally:
        document = {**asdict(found), "read": found.read, "out": saved and shown(saved)}
        report(document, [str(found), *([f"saved in {saved}"] if saved else [])])
        _write_page(found, html)
    for path, reason in found.skipped.items():
        click.echo(f"Warning: skipped {as_options(one_line(f'{path}: {reason}'))}", err=True)
    if found.is_refused:
        alarms = "; ".join(f"{path} ({alarm})" for path, alarm in found.alarms_by_file.items())
        raise Refused(
            f"nothing has changed, since files lie too far: {alarms}; --accept them, or --leave-out them "
            "each time"
        )
    if found.skipped:
        raise Skipped(
            f"{counted(len(found.skipped), 'file')} left out; the next refresh tries to read them again"
        )


def predict(saved_in: str, data: Paths, *, out: str) -> None:
    """Score data of any size with a saved model.

    DATA is as for fit, but needs no labels. There is one row of predictions for each row of the input, in its
    order. They are written part by part; after an interruption the same command goes on where it stopped.

    SAVED_IN is a model; or a pipeline of scikit-learn or a search in a file of joblib, whose name ends in
    .joblib. Such a file can run code, so load none that you do not trust.

    Parameters
    ----------
    out
        A folder of its own for Parquet files; or a Zarr store, if its name ends in .zarr. Predictions of
        another input or model that are there are replaced.

    Other Parameters
    ----------------
    scan
    scan_parquet : but target, weight, exclude, categories
    predict
    run

    Examples
    --------
    streamgda predict model.parquet wednesday.parquet --out scored
    streamgda predict model.parquet days --columns label,distance --keep id --out scored
    streamgda predict model.parquet days --columns label,reasons --top 3 --out scored
    streamgda predict model.parquet flowers.zarr --out scored.zarr
    """
    model = _model_in(saved_in)
    source = _source_of(data, model, is_labelled=False)
    written = sg.predict_dataset(model, source, out, **given("predict"), **running())
    report({**asdict(written), "out": shown(out)})


def evaluate(saved_in: str, data: Paths, *, html: Out = None) -> None:
    """Evaluate a saved model on labelled data, in one read.

    SAVED_IN is as for predict, and DATA as for fit. Accuracy, log loss and Brier score are printed, and for
    each class precision, recall, F1, and the areas under its ROC and precision-recall curves; with --json the
    confusion matrix too, whose rows are the true classes. With --test or --by, the model is judged by the
    test part alone, which fit with the same options leaves out.

    Parameters
    ----------
    html
        A file to write the evaluation to as a page of HTML too.

    Other Parameters
    ----------------
    scan
    scan_parquet : but exclude, categories
    evaluate
    run
    split

    Examples
    --------
    streamgda evaluate model.parquet labelled.parquet --target kind
    streamgda evaluate model.parquet days --target kind --test 0.2 --by patient
    """
    model = _model_in(saved_in)
    source = _part_of(data, is_test=True, saved=model)
    evaluation = sg.evaluate(model, source, **given("evaluate"), **running())
    report(evaluation.to_dict(), [str(evaluation)], is_result=True)
    _write_page(evaluation, html)


def inspect(path: str, *, tests: bool = False) -> None:
    """Describe saved models, statistics and ledgers, and data.

    This prints the kind and parameters, rows, features, classes and bytes, whether a model can predict, and
    which models can be made of statistics, or why not; which features are missing together, if some are; for
    a ledger also the number of files and the options that they are read with. Of data
    it prints the number of files and rows, and the columns with their types.

    Parameters
    ----------
    tests
        Also test whether means and covariances of the classes differ.

    Other Parameters
    ----------------
    scan

    Examples
    --------
    streamgda inspect model.parquet
    streamgda inspect ledger --json
    """
    storage, name = resolve(path)
    if data := _data_at(path):
        report(data, is_result=True)
        return
    if storage.filesystem.get_file_info(name).type.name == "Directory":
        ledger = _ledger_at(path)
        saved, facts = ledger.statistics(), {"files": ledger.files.num_rows, "reads": ledger.read_options}
    else:
        saved, facts = sg.load(path), {"bytes": storage.version(name).size}
        facts |= sg.load_metadata(path)
    model = maps_and_model(saved)[1]
    makers = {type(model).__name__: getattr(model, "snapshot", bool)}
    if not hasattr(saved, "statistics_"):
        makers = {name: partial(getattr(sg, name).from_statistics, saved) for name in MODELS.values()}
    faults = {name: _tried(make)[1] for name, make in makers.items()}
    document = {"path": shown(path), **facts, **_document_of(saved), "tests": {}}
    document["can_predict"] = [name for name, fault in faults.items() if fault is None]
    document["cannot_predict"] = {name: fault for name, fault in faults.items() if fault is not None}
    for test in (manova, box_m) if tests else ():
        found, fault = _tried(partial(test, getattr(saved, "statistics_", saved)))
        document["tests"][test.__name__] = fault or found.to_pandas().reset_index()
    report(document, is_result=True)


# ---------------------------------------------------------------------- data to read


def _source_of(
    data: Paths,
    saved: Any = None,
    *,
    without: Paths = (),
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
    source = _scanned(path, **{**options, **given("scan")})
    known_by = None if saved is None else maps_and_model(saved)[1]
    return source if saved is None else source.with_kinds_of(getattr(known_by, "statistics_", known_by))


def _scanned(path: Any, **options: Any) -> Source:
    """The source. For --features 300 with --model random-features, the error says where that number goes."""
    try:
        return sg.scan(path, **options)
    except ValueError as error:
        number = ",".join(options.get("features") or [])
        is_asked = number.isdigit() and given("model").get("model") == "random-features"
        if not is_asked or "no column" not in str(error):
            raise
        how = f"streamgda search --try 'random-features features={number}' --scoring neg_log_loss --calibrate"
        raise click.UsageError(f"{describe(error)}. The number of random features is set by {how}") from error


def _part_of(data: Paths, *, is_test: bool, saved: Any = None, without: Paths = ()) -> Source:
    """The source of the rows to learn from or to judge by: all of them, unless the user splits them."""
    options = given("split")
    columns = {options.get("by", "rows")} - {"rows", "files"}
    source = _source_of(data, saved, without=[*without, *columns])
    return source.split(**options)[is_test] if options else source


# ---------------------------------------------------------------------- models to make, and files to write


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


def _model_of(option: str = "", known: Any = None) -> tuple[Any, Callable[..., Any], Any]:
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


def _model_at(out: str | None) -> Any:
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


def _rule_of(estimator: Any, source: Source, **run: Any) -> RowRule | None:
    """The rule by which a model divides or maps the rows of a source, which may take a read of it."""
    source = source.pinned()
    read = partial(read_into, source, **run)
    (rule,), _ = estimator.rules_for([estimator], read, source, run["scheduler"])
    return cast("RowRule | None", rule)


def _check_replaceable(path: str | None, source: Source | None = None) -> None:
    """Check before the work that a model or statistics can be saved at a path, and replace no other file."""
    if path is None:
        return
    if path == "-" or path.lower().endswith(_TEXT_ENDINGS):
        raise click.UsageError(f"--out {path}: what is saved is a Parquet file, and no text.")
    tables.check_replaceable(path)
    if "://" not in path:
        folder = Path(path).expanduser().absolute().parent
        if not folder.is_dir():
            raise ValueError(f"--out {path}: there is no folder {folder}")
        tempfile.TemporaryFile(dir=folder).close()
    if isinstance(source, FileSource) and source.includes(*resolve(path)):
        raise ValueError(f"{path} lies in the folder of the data, where it would be read as data")


def _write_page(report: Any, html: str | None) -> None:
    """Write a report as a page of HTML, if a file is named."""
    if html is not None:
        page = f'<!DOCTYPE html>\n<meta charset="utf-8">\n<title>streamgda</title>\n{report._repr_html_()}\n'
        Path(html).expanduser().write_text(page, encoding="utf-8")


def _save(saved: Any, out: str, **more: Any) -> None:
    """Save a model or statistics, and report the contents. Warn if it cannot predict yet."""
    saved.save(out)
    if fault := _fault_of(saved):
        warnings.warn(f"it cannot predict yet: {fault}", stacklevel=2)
    report({**more, **_document_of(saved), "out": shown(out)})


# ---------------------------------------------------------------------- what is saved


def _model_in(path: str) -> Any:
    """A model, or a pipeline that ends in one or a search from a file of joblib, which gets ``--missing``."""
    saved = (joblib.load if path.endswith(".joblib") else sg.load_model)(path)
    if "missing" in given("scan_parquet"):
        model = maps_and_model(saved)[1]
        model.set_params(**_missing_of(model))
    return saved


def _ledger_at(path: str, **new: Any) -> sg.StatisticsLedger:
    """A ledger with the options with which it was made, or a new one with other options."""
    try:
        kept = options_of(sg.StatisticsLedger(path).read_options)
    except ValueError:  # it is new, or damaged, which the refresh that follows reports
        kept = new
    return sg.StatisticsLedger(path, **{**kept, **given("ledger")})


def _ledger_for(path: str, estimator: Any, source: Source, is_new: bool, **run: Any) -> sg.StatisticsLedger:
    """A ledger that keeps what a model is made of; ValueError if it was made for another, or keeps less."""
    needed, new = estimator.required_statistics(), {}
    extra = [name for name, value in needed.keywords().items() if value is True]
    if is_new and not given("refresh").get("dry_run"):
        rule = _rule_of(estimator, source, **run)
        new = {"rule": rule} | ({} if rule is None else {"covariance_type": needed.covariance_type})
    kept = _ledger_at(path, **dict.fromkeys(extra, True), **new)
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


def _data_at(path: str) -> dict[str, Any] | None:
    """Describe files of data; None for what is no data, or was saved by this library."""
    kind = given("scan").get("format")
    found, fault = _tried(partial(dataset_at, path, kind=kind))
    if fault and (kind or path.endswith((*_TEXT_ENDINGS, ".zarr")) or _is_folder_of_others(path)):
        raise ValueError(fault)
    if found is None or is_saved(found.stored):
        return None
    columns = pd.DataFrame({"column": found.schema.names, "type": map(str, found.schema.types)})
    paths, rows = found.listing.files, found.count_rows()
    return {"path": shown(path), "format": found.written_as, "files": len(paths), "rows": rows} | {
        "columns": columns
    }


def _is_folder_of_others(path: str) -> bool:
    """Whether it is a folder that holds something, and no ledger."""
    storage, name = resolve(path)
    if storage.filesystem.get_file_info(name).type.name != "Directory":
        return False
    inside = storage.children(name)
    return bool(inside) and {LEDGER, ENTRIES}.isdisjoint(inside)


def _tried(call: Callable[[], Any]) -> tuple[Any, str | None]:
    """What a call returns, and the message of its error."""
    try:
        return call(), None
    except (ValueError, OSError) as error:
        return None, describe(error)


def _fault_of(saved: Any) -> str | None:
    """Why a model cannot predict; None if it can, or if these are statistics."""
    return _tried(getattr(maps_and_model(saved)[1], "snapshot", bool))[1]


def _document_of(saved: Any) -> dict[str, Any]:
    """Describe a model or statistics."""
    statistics, model = getattr(saved, "statistics_", saved), maps_and_model(saved)[1]
    sums = {"count": statistics.counts, "weight": statistics.weights}
    numbers = ("n_rows", "n_dropped", "n_features", "feature_names")
    return {
        "kind": type(model).__name__,
        "parameters": {} if statistics is saved else model.get_params(deep=False),
        **statistics.required.keywords(),
        **{name: getattr(statistics, name) for name in numbers},
        **statistics.schema.to_metadata(),
        "classes": pd.DataFrame({"label": statistics.classes.tolist(), **sums}),
    }
