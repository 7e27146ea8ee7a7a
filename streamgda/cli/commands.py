"""The functions of the commands. Their docstrings are the help, and say whose parameters are options too."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import click
import pandas as pd

import streamgda as sg
from streamgda.cli import from_options
from streamgda.cli.errors import Refused, Skipped, attempt, describe
from streamgda.cli.files import check_replaceable, data_at, document_of, fault_of, save_and_report, write_page
from streamgda.cli.main import MODELS, given, value_of
from streamgda.cli.running import report, running
from streamgda.cli.words import as_options, flag
from streamgda.data.blocks.wording import counted
from streamgda.data.storage.filesystems import resolve
from streamgda.data.storage.paths import one_line, shown
from streamgda.diagnostics import box_m, manova
from streamgda.jobs.scoring.inference import maps_and_model, with_features_of
from streamgda.jobs.selection.candidates import candidates_of
from streamgda.models.estimators.forgetting import factor_after, newest_and_weights
from streamgda.statistics.base import Statistics

Paths: TypeAlias = Sequence[str]
Out: TypeAlias = str | None


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
    estimator, build, missing = from_options.new_model()
    source = None if sql else from_options.part_of(data, is_test=False)
    check_replaceable(out, source)
    run, kept = running(), estimator.required_statistics().keywords()
    if source is None:
        learnt = _of_database(sql, data, estimator, kept)
    elif estimator.maps_rows and not statistics:  # it is calibrated by a sample of the rows that it reads
        if how := given("accumulate"):
            raise click.UsageError(
                f"{' '.join(map(flag, how))} of --model {given('model')['model']} takes --statistics too."
            )
        save_and_report(estimator.fit(source, **run), out)
        return
    else:
        kept["missing"] = None if statistics and isinstance(missing, str) else missing  # None: read once
        kept["rule"] = from_options.rule_of(estimator, source, **run)
        learnt = sg.accumulate(source, **given("accumulate"), **kept, **run)
    try:
        saved = learnt if statistics else build(learnt)
    except ValueError as error:
        beside = f"{out.removesuffix(Path(out).suffix)}.statistics.parquet"
        _, fault = attempt(partial(learnt.save, beside))
        ways = f"streamgda merge {beside} --model ... --out {out}, or streamgda update {beside} DATA ..."
        said = fault or f"The statistics are saved in {beside}; go on by {ways}"
        raise ValueError(f"{describe(error)}. {said}") from error
    save_and_report(saved, out)


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
    streamgda search days --target kind --try 'random-features features=300' --scoring accuracy
    """
    options, grids = given("search"), [_grid(*text.split()) for text in tried]
    if (fault := attempt(partial(candidates_of, None, grids))[1]) is not None:
        raise click.UsageError(f"Invalid value for '--try': {fault}")
    without = [options[name] for name in ("groups", "fold") if name in options]
    source = from_options.part_of(data, is_test=False, without=without)
    check_replaceable(out, source)
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
    return {"estimator": [from_options.new_model(model)[0]], **values}


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
    source, (maps, model) = from_options.source_of(data, saved), maps_and_model(saved)
    source = source if maps is None else with_features_of(model, source, maps)
    check_replaceable(place, source)
    kept = {**statistics.required.keywords(), "rule": statistics.rule}
    if half_life := getattr(model, "half_life", None):
        newest_and_weights(model, None, None, in_memory=False)  # raises if batches before had times
    new = sg.accumulate(source, **given("accumulate"), **kept, **running())
    if half_life:
        statistics.decay(factor_after(new.n_rows / half_life))
    before, _ = fault_of(saved), model.merge(new)
    if place == saved_in and not force and not before and (fault := fault_of(saved)):
        raise ValueError(
            f"{place} could not predict any more: {fault}. It is as it was; see --out and --force"
        )
    save_and_report(saved, place, rows_learnt=new.n_rows, rows_dropped=new.n_dropped)


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
    _, build, _ = from_options.new_model()
    if len({file if "://" in file else str(Path(file).resolve()) for file in files}) < len(files):
        raise click.UsageError("A file is named twice: its rows would count twice.")
    check_replaceable(out)
    load = sg.load_statistics if given("model") else sg.load
    total = load(files[0])
    for file in files[1:]:
        try:
            total = total.merge(load(file))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{shown(file)} cannot be added to {shown(files[0])}: {describe(error)}"
            ) from error
    save_and_report(build(total) if given("model") else total, out)


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
    check_replaceable(out)  # before it is loaded; below, that it lies outside the data
    estimator, build, missing = from_options.new_model(known=from_options.model_to_relearn(out))
    known, _ = attempt(lambda: sg.StatisticsLedger(ledger).read_options)
    groups = given("ledger").get("groups")
    source = from_options.source_of(data, known=known or {}, without=[groups] if groups else [])
    check_replaceable(out, source)
    run = running()
    kept = (
        from_options.ledger_for(ledger, estimator, source, known is None, **run)
        if out
        else from_options.ledger_at(ledger)
    )
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
        write_page(found, html)
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
    model = from_options.loaded_model(saved_in)
    source = from_options.source_of(data, model, is_labelled=False)
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
    model = from_options.loaded_model(saved_in)
    source = from_options.part_of(data, is_test=True, saved=model)
    evaluation = sg.evaluate(model, source, **given("evaluate"), **running())
    report(evaluation.to_dict(), [str(evaluation)], is_result=True)
    write_page(evaluation, html)


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
    if data := data_at(path):
        report(data, is_result=True)
        return
    if storage.filesystem.get_file_info(name).type.name == "Directory":
        ledger = from_options.ledger_at(path)
        saved, facts = ledger.statistics(), {"files": ledger.files.num_rows, "reads": ledger.read_options}
    else:
        saved, facts = sg.load(path), {"bytes": storage.version(name).size}
        facts |= sg.load_metadata(path)
    model = maps_and_model(saved)[1]
    makers = {type(model).__name__: getattr(model, "snapshot", bool)}
    if not hasattr(saved, "statistics_"):
        makers = {name: partial(getattr(sg, name).from_statistics, saved) for name in MODELS.values()}
    faults = {name: attempt(make)[1] for name, make in makers.items()}
    document = {"path": shown(path), **facts, **document_of(saved), "tests": {}}
    document["can_predict"] = [name for name, fault in faults.items() if fault is None]
    document["cannot_predict"] = {name: fault for name, fault in faults.items() if fault is not None}
    for test in (manova, box_m) if tests else ():
        found, fault = attempt(partial(test, getattr(saved, "statistics_", saved)))
        document["tests"][test.__name__] = fault or found.to_pandas().reset_index()
    report(document, is_result=True)
