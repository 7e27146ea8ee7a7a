"""The command line: real data, processes where a process matters, and what is left when things go wrong.

Most commands also run in the pages of the guide, which the tests follow.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
import tomllib
import warnings
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.discriminant_analysis
import sklearn.naive_bayes
from click.testing import CliRunner
from sklearn import metrics
from sklearn.datasets import load_digits, load_iris

import streamgda
from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    accumulate,
    evaluate,
    load,
    scan_parquet,
    scan_zarr,
)
from streamgda.cli.main import MODELS, main
from streamgda.jobs.selection.scorings import METRICS
from tests.data.tables import zarr_group
from tests.interrupted import until

ROOT = Path(__file__).parents[2]
FEATURES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
COMMANDS = [*("fit", "search", "update", "merge"), *("refresh", "predict", "evaluate", "inspect")]


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", **more}


def start(folder, *arguments, **options):
    command = [sys.executable, "-m", "streamgda", *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment(), **options}
    return subprocess.Popen(command, cwd=folder, text=True, **options)


def run(folder, *arguments, code=0, **options):
    """What a process says on stdout if all goes well, and on stderr if it is to end with another code."""
    process = start(folder, *arguments, **options)
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    if code == 0:
        assert err == ""
        return out
    assert out == ""
    return err


def fails(folder, *arguments, code=1, **options):
    """The one line that a process which fails says."""
    err = run(folder, *arguments, code=code, **options)
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    return err


def result_of(folder, *arguments, code=0):
    """What a command says in this process, for what needs no process of its own."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.chdir(folder)
        warnings.simplefilter("always")
        result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def invoke(folder, *arguments, code=0):
    """What it says on stdout if all goes well, and in one line on stderr if not."""
    result = result_of(folder, *arguments, code=code)
    if code:
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr
    assert result.stderr == ""
    return result.stdout


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def iris():
    bunch = load_iris(as_frame=True)
    frame = bunch.data.set_axis(FEATURES, axis=1)
    frame["kind"] = bunch.target_names[bunch.target]
    frame["id"] = np.arange(150)
    return frame.sample(frac=1, random_state=0, ignore_index=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory, iris):
    """A folder of data, and models that the library has learnt from it."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "days").mkdir()
    iris.to_parquet(folder / "iris.parquet", index=False)
    iris.to_csv(folder / "flowers.csv", index=False)
    iris[:80].to_parquet(folder / "days" / "1.parquet", index=False)
    iris[80:].to_parquet(folder / "days" / "2.parquet", index=False)
    (folder / "damaged.parquet").write_bytes((folder / "iris.parquet").read_bytes()[:2000])
    X, y = load_digits(return_X_y=True)
    zarr_group(folder / "digits.zarr", 500, X=X, y=y)
    source = scan_parquet(folder / "iris.parquet", "kind", features=FEATURES)
    QuadraticDiscriminantAnalysis().fit(source).save(folder / "model.parquet")
    LinearDiscriminantAnalysis().fit(source).save(folder / "lda.parquet")
    accumulate(source).save(folder / "statistics.parquet")
    GaussianNB().fit(scan_zarr(folder / "digits.zarr")).save(folder / "digits.parquet")
    (folder / "cut.parquet").write_bytes((folder / "model.parquet").read_bytes()[:1000])
    return folder


NAMES = ",".join(FEATURES)
FIT = ["fit", "days", "--target", "kind", "--out", "m"]

# ---------------------------------------------------------------------- what the commands do


def test_excluded_columns_are_no_features(made, tmp_path):
    out, named = tmp_path / "model.parquet", load(made / "model.parquet")
    invoke(made, "fit", "days", "--target", "kind", "--exclude", "i*", "--out", out)
    assert load(out).statistics_.allclose(named.statistics_, rtol=1e-12)
    invoke(made, "fit", "days", "--target", "kind", "--exclude", "id", "--exclude", FEATURES[0], "--out", out)
    assert load(out).statistics_.feature_names == tuple(FEATURES[1:])
    invoke(made, "refresh", tmp_path / "ledger", "days", "--target", "kind", "--exclude", "id", "--out", out)
    assert load(out).statistics_.feature_names == tuple(FEATURES)
    said = invoke(made, "fit", "digits.zarr", "--exclude", "id", "--out", out, code=1)
    assert "unexpected keyword argument 'exclude'" in said


def test_an_identifier_among_the_features_is_mentioned_in_the_words_of_the_shell(made, tmp_path):
    fit = ["fit", "days", "--target", "kind", "--out", tmp_path / "model.parquet"]
    said = warned(made, *fit)
    assert said.startswith("Warning: /")
    assert "days/1.parquet: by default all columns are features, also 'id'. A column of" in said
    assert said.endswith("Set --exclude id, or name the features to use\n")
    assert warned(made, *fit, "--exclude", "id") == warned(made, *fit, "--quiet") == ""
    rows = pq.read_table(made / "days" / "1.parquet").drop_columns("id").to_pandas()
    rows.to_csv(tmp_path / "a.csv")  # with a column of row numbers, which has no name
    fit[1] = tmp_path / "a.csv"
    assert "also ''. A column of" in warned(made, *fit)
    assert warned(made, *fit, "--exclude", '""') == ""


def test_fit_learns_from_parquet_what_scikit_learn_learns_in_memory(made, iris, tmp_path):
    out = tmp_path / "model.parquet"
    said = invoke(made, "fit", "days", "--target", "kind", "--features", NAMES, "--out", out)
    assert said.startswith("kind: QuadraticDiscriminantAnalysis\n")
    assert "\nn_rows: 150\n" in said
    assert said.endswith(f"\nout: {out}\n")
    peer = sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis().fit(iris[FEATURES], iris["kind"])
    model = streamgda.load(out)
    np.testing.assert_allclose(
        model.predict_proba(iris[FEATURES]), peer.predict_proba(iris[FEATURES]), rtol=1e-6, atol=1e-9
    )


def test_fit_takes_the_parameters_of_the_estimators(made, tmp_path):
    out = tmp_path / "model.parquet"
    source = scan_parquet(made / "iris.parquet", "kind", features=FEATURES)
    for options, expected in (
        (["--model", "lda", "--shrinkage", "auto"], LinearDiscriminantAnalysis(shrinkage="auto")),
        (["--model", "qda", "--reg-param", "0.1"], QuadraticDiscriminantAnalysis(reg_param=0.1)),
        (
            ["--pooling", "bayes", "--predictive", "student"],
            QuadraticDiscriminantAnalysis(pooling="bayes", predictive="student"),
        ),
        (["--model", "nb", "--pooling", "0.2"], GaussianNB(pooling=0.2)),
        (["--model", "lda", "--predictive", "student"], LinearDiscriminantAnalysis(predictive="student")),
        (["--shrinkage", "0.2", "--exact"], QuadraticDiscriminantAnalysis(shrinkage=0.2, exact=True)),
        (["--model", "nb", "--var-smoothing", "1e-3"], GaussianNB(var_smoothing=1e-3)),
        (["--model", "nb", "--priors", "0.5,0.3,0.2"], GaussianNB(priors=[0.5, 0.3, 0.2])),
    ):
        invoke(made, "fit", "iris.parquet", "--target", "kind", "--features", NAMES, "--out", out, *options)
        model = streamgda.load(out)
        assert repr(model) == repr(expected)
        assert model.statistics_ == expected.fit(source).statistics_


def test_fit_on_zarr_reports_in_json(made, tmp_path):
    out = tmp_path / "model.parquet"
    report = json.loads(invoke(made, "fit", "digits.zarr", "--model", "nb", "--out", out, "--json"))
    X, y = load_digits(return_X_y=True)
    assert (report["kind"], report["n_rows"], report["n_features"]) == ("GaussianNB", len(X), 64)
    assert [(c["label"], c["count"]) for c in report["classes"]] == [*enumerate(np.bincount(y))]
    peer = sklearn.naive_bayes.GaussianNB().fit(X, y)
    assert (streamgda.load(out).predict(X) == peer.predict(X)).all()


def test_statistics_become_any_model(made, iris, tmp_path):
    saved = tmp_path / "statistics.parquet"
    arguments = ["iris.parquet", "--target", "kind", "--features", NAMES, "--out", saved]
    assert "kind: ClassStatistics" in invoke(made, "fit", *arguments, "--statistics")
    for name, kind in (("lda", LinearDiscriminantAnalysis), ("nb", GaussianNB)):
        invoke(made, "merge", saved, "--model", name, "--out", tmp_path / "model.parquet")
        expected = kind().fit(iris[FEATURES], iris["kind"])
        model = streamgda.load(tmp_path / "model.parquet")
        np.testing.assert_allclose(
            model.predict_proba(iris[FEATURES]), expected.predict_proba(iris[FEATURES])
        )


def test_update_learns_more_into_the_same_file(made, iris, tmp_path):
    model = tmp_path / "model.parquet"
    GaussianNB().fit(scan_parquet(made / "days" / "1.parquet", "kind", features=FEATURES)).save(model)
    said = invoke(made, "update", model, "days/2.parquet", "--target", "kind")
    assert said.startswith("rows_learnt: 70\nkind: GaussianNB\n")
    peer = sklearn.naive_bayes.GaussianNB().fit(iris[FEATURES], iris["kind"])
    np.testing.assert_allclose(
        streamgda.load(model).predict_proba(iris[FEATURES]), peer.predict_proba(iris[FEATURES]), rtol=1e-6
    )
    assert names_in(tmp_path) == ["model.parquet"]


def test_update_lets_a_model_forget_by_its_half_life(made, tmp_path):
    days = [made / "days" / f"{day}.parquet" for day in (1, 2)]
    said = ["--target", "kind", "--exclude", "id", "--quiet"]
    invoke(tmp_path, "fit", days[0], *said, "--model", "nb", "--half-life", "70", "--out", "model.parquet")
    invoke(tmp_path, "update", "model.parquet", days[1], "--target", "kind", "--quiet")
    assert streamgda.load(tmp_path / "model.parquet").statistics_.weights.sum() == pytest.approx(80 / 2 + 70)
    frame = pq.read_table(days[0]).to_pandas()
    timed = GaussianNB(half_life=2.0).partial_fit(frame[FEATURES], frame["kind"], time=3.0)
    timed.save(tmp_path / "timed.parquet")
    before = (tmp_path / "timed.parquet").read_bytes()
    invoke(tmp_path, "update", "timed.parquet", days[1], "--target", "kind", code=1)
    assert (tmp_path / "timed.parquet").read_bytes() == before


def test_update_says_which_class_cannot_be_predicted_yet(made, iris, tmp_path):
    iris[:3].assign(kind="new").to_parquet(tmp_path / "new.parquet")
    arguments = ["update", made / "model.parquet", "new.parquet", "--target", "kind", "--out", "more.parquet"]
    said = warned(tmp_path, *arguments)
    assert said.startswith("Warning: class new gets no posterior until it can be estimated.")
    assert "drop_class('new') forgets it" in said
    assert said.count("\n") == 1
    assert warned(tmp_path, *arguments, "--quiet") == ""
    assert streamgda.load(tmp_path / "more.parquet").statistics_.n_rows == 153


def test_a_model_that_predicts_is_not_replaced_by_one_that_cannot(iris, tmp_path):
    QuadraticDiscriminantAnalysis(singular="raise").fit(iris[FEATURES], iris["kind"]).save(
        tmp_path / "model.parquet"
    )
    before = (tmp_path / "model.parquet").read_bytes()
    iris[:3].assign(kind="new").to_parquet(tmp_path / "new.parquet")
    arguments = ["update", "model.parquet", "new.parquet", "--target", "kind"]
    said = invoke(tmp_path, *arguments, code=1)
    assert "model.parquet could not predict any more: The covariance matrix of class new is not full" in said
    assert said.endswith("It is as it was; see --out and --force\n")
    assert (tmp_path / "model.parquet").read_bytes() == before
    assert "cannot predict yet: The covariance matrix of class new" in warned(
        tmp_path, *arguments, "--out", "other"
    )
    assert "cannot predict yet: The covariance matrix of class new" in warned(tmp_path, *arguments, "--force")
    assert warned(tmp_path, *arguments, "--quiet") == ""  # it could not predict before, so nothing is lost
    assert streamgda.load(tmp_path / "model.parquet").statistics_.n_rows == 156


def warned(folder, *arguments):
    """What a command that does its work says on stderr."""
    return result_of(folder, *arguments).stderr


def test_what_was_read_is_kept_where_no_model_can_be_made_of_it(iris, tmp_path):
    iris[:53].assign(kind=["new"] * 3 + ["old"] * 50).to_parquet(tmp_path / "new.parquet")
    arguments = ["fit", "new.parquet", "--target", "kind", "--features", NAMES, "--out", "model.parquet"]
    said = invoke(tmp_path, *arguments, code=1)
    assert "class new is not full rank." in said
    assert "The statistics are saved in model.statistics.parquet; go on by streamgda merge" in said
    assert names_in(tmp_path) == ["model.statistics.parquet", "new.parquet"]
    command = said.split("by streamgda ")[1].split(", or")[0].replace("...", "qda --reg-param 0.01")
    assert "n_rows: 53" in invoke(tmp_path, *command.split())
    assert streamgda.load(tmp_path / "model.parquet").reg_param == 0.01
    said = invoke(tmp_path, *arguments, "--priors", "0.2,0.3,0.5", code=1)
    assert "priors have shape (3,)" in said
    iris[:53].assign(kind=["new"] * 3 + ["old"] * 50).to_parquet(tmp_path / "new.parquet")
    (tmp_path / "model.statistics.parquet").write_bytes((tmp_path / "new.parquet").read_bytes())
    assert "will not overwrite model.statistics.parquet" in invoke(tmp_path, *arguments, code=1)


def test_only_rows_that_pass_the_filters_are_read(made, iris, tmp_path):
    out = tmp_path / "model.parquet"
    spaced = f" {NAMES.replace(',', ' , ')}"
    arguments = ["fit", "days", "--target", "kind", "--features", spaced, "--out", out]
    invoke(made, *arguments, "--filter", "id >= 20", "--filter", "id!=25", "--filter", "kind=setosa",
           "--filter", "sepal_width<9.5", "--model", "nb", "--statistics")  # fmt: skip
    rows = iris[(iris["id"] >= 20) & (iris["id"] != 25) & (iris["kind"] == "setosa")]
    assert streamgda.load(out).n_rows == len(rows)
    said = invoke(made, "predict", "model.parquet", "days", "--filter", "id<20", "--out", tmp_path / "scored")
    assert said.startswith("n_rows: 20\n")
    table = pa.table({
        "x": np.arange(6.0), "y": [0, 1] * 3, "code": list("778899"), "on": [True, False] * 3,
        "day": np.arange("2026-01-01", "2026-01-07", dtype="datetime64[D]"),
        "time": np.arange("2026-01-01", "2026-01-07", dtype="datetime64[D]").astype("datetime64[us]"),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "kinds.parquet")
    for filters, n_rows in (
        (["code='8'"], 2), (["on=true"], 3), (["day>2026-01-04"], 2), (["time>=2026-01-04T00:00"], 3),
        (["x<=1e0"], 2), (["x>0", "on==false"], 3),
    ):  # fmt: skip
        options = [part for comparison in filters for part in ("--filter", comparison)]
        invoke(tmp_path, "fit", "kinds.parquet", "--target", "y", "--features", "x", *options,
               "--statistics", "--out", "s.parquet")  # fmt: skip
        assert streamgda.load(tmp_path / "s.parquet").n_rows == n_rows


def test_merge_names_the_file_that_does_not_fit(made, iris, tmp_path):
    iris.drop(columns="id").to_parquet(tmp_path / "all.parquet")
    model, other = made / "model.parquet", tmp_path / "other.parquet"
    invoke(tmp_path, "fit", "all.parquet", "--target", "kind", "--features", "sepal_width", "--out", other)
    said = invoke(tmp_path, "merge", model, model.with_name("model.parquet"), "--out", "sum.parquet", code=2)
    assert "named twice" in said
    said = invoke(tmp_path, "merge", model, other, "--out", "sum.parquet", code=1)
    assert f"{other} cannot be added to {model}" in said


@pytest.mark.parametrize("out", ["-", "model.csv", "MODEL.JSON"])
def test_a_model_is_not_saved_as_text(made, out):
    said = invoke(made, "merge", "model.parquet", "--out", out, code=2)
    assert f"--out {out}: what is saved is a Parquet file, and no text" in said


def test_merge_adds_up_models(made, iris, tmp_path):
    for day in "12":
        source = scan_parquet(made / "days" / f"{day}.parquet", "kind", features=FEATURES)
        QuadraticDiscriminantAnalysis(reg_param=0.01).fit(source).save(tmp_path / f"{day}.parquet")
    files = ["1.parquet", "2.parquet", "--out", "both.parquet"]
    report = json.loads(invoke(tmp_path, "merge", *files, "--json"))
    assert report["n_rows"] == 150
    assert report["parameters"]["reg_param"] == 0.01
    both = streamgda.load(tmp_path / "both.parquet")
    expected = QuadraticDiscriminantAnalysis(reg_param=0.01).fit(iris[FEATURES], iris["kind"])
    np.testing.assert_allclose(both.predict_proba(iris[FEATURES]), expected.predict_proba(iris[FEATURES]))


def test_refresh_reads_what_is_new_and_saves_a_model(made, iris, tmp_path):
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "1.parquet").write_bytes((made / "days" / "1.parquet").read_bytes())
    arguments = ["refresh", "ledger", "days", "--target", "kind", "--features", NAMES]
    assert invoke(tmp_path, *arguments).splitlines() == [
        "read 1 file (1 new, 0 changed), reused 0, dropped 0",
        "80 rows read, 80 held",
        "new classes: setosa, versicolor, virginica",
    ]
    (tmp_path / "days" / "2.parquet").write_bytes((made / "days" / "2.parquet").read_bytes())
    report = json.loads(invoke(tmp_path, *arguments, "--model", "lda", "--out", "lda.parquet", "--json"))
    assert (report["added"], report["reused"], report["rows_held"]) == (["2.parquet"], ["1.parquet"], 150)
    assert [len(drift["shift"]) for drift in report["drift"]] == [4, 4, 4]
    expected = LinearDiscriminantAnalysis().fit(iris[FEATURES], iris["kind"])
    model = streamgda.load(tmp_path / "lda.parquet")
    np.testing.assert_allclose(model.predict_proba(iris[FEATURES]), expected.predict_proba(iris[FEATURES]))
    assert "would read 0 files" in invoke(tmp_path, *arguments, "--dry-run")
    said = json.loads(invoke(tmp_path, "inspect", "ledger", "--json"))
    assert (said["files"], said["n_rows"], said["reads"]["target"]) == (2, 150, "kind")
    assert "\nreads: target='kind', features=" in invoke(tmp_path, "inspect", "ledger")


@pytest.fixture
def days(made, tmp_path):
    """A folder with a file of the past."""
    (tmp_path / "days").mkdir()
    for day in "12":
        (tmp_path / "days" / f"{day}.parquet").write_bytes((made / "days" / f"{day}.parquet").read_bytes())
    os.utime(tmp_path / "days" / "1.parquet", (1.7e9, 1.7e9))
    return tmp_path


REFRESH = ["refresh", "ledger", "days", "--target", "kind", "--features", NAMES]


def test_a_ledger_keeps_what_its_model_needs(days):
    invoke(days, *REFRESH, "--out", "model.parquet", "--shrinkage", "auto")
    model = streamgda.load(days / "model.parquet")
    assert (type(model), model.shrinkage) == (QuadraticDiscriminantAnalysis, "auto")
    poor = [*REFRESH[:1], "poor", *REFRESH[2:]]
    invoke(days, *poor, "--covariance-type", "diag", "--out", "model.parquet", "--model", "nb")
    said = invoke(days, *poor, "--out", "model.parquet", "--model", "qda", code=1)
    assert "keeps less than the model needs: refresh another ledger, with --covariance-type full" in said
    assert "reused" not in said  # it is told before the files are looked at
    assert type(streamgda.load(days / "model.parquet")) is GaussianNB


@pytest.mark.parametrize(
    "named",
    [
        "qda --reg-param 0.1 --pooling 0.2 --temperature 2 --missing marginal",
        "lda --shrinkage auto --priors 0.2,0.3,0.5",
        "nb --var-smoothing 1e-3 --exact",
        "edda --covariance-model VEV",
        "mda --subclasses 2",
        "ridge --alpha 2",
        "random-features --alpha 2 --products float32 --temperature 2",
        "leaves --alpha 2 --temperature 2",
    ],
)
def test_a_model_that_is_refreshed_keeps_its_kind_and_parameters(days, made, named):
    invoke(days, *REFRESH, "--out", "model.parquet", "--model", *named.split())
    first = load(days / "model.parquet")
    (days / "days" / "2.parquet").unlink()
    refresh = ["refresh", "ledger", "days", "--out", "model.parquet"]
    assert invoke(days, *refresh).startswith("read 0 files")
    model = load(days / "model.parquet")
    assert (type(model), model.statistics_.n_rows) == (type(first), 80)
    assert str(model.get_params()) == str(first.get_params())
    invoke(days, *refresh, "--temperature", "3")
    assert load(days / "model.parquet").get_params()["temperature"] == 3


@pytest.mark.parametrize("model", ["random-features", "leaves"])
def test_a_refresh_says_that_probabilities_are_not_calibrated(days, model):
    """Until a temperature is set, which later refreshes keep."""
    said = warned(days, *REFRESH, "--model", model, "--out", "model.parquet")
    assert "set --temperature to the best_temperature that evaluate --json tells" in said
    assert "calibrated" in warned(days, *REFRESH, "--out", "model.parquet")
    judge = ["evaluate", "model.parquet", "days", "--target", "kind", "--json"]
    before = json.loads(invoke(days, *judge))
    invoke(days, *REFRESH, "--temperature", before["best_temperature"], "--out", "model.parquet")
    invoke(days, *REFRESH, "--out", "model.parquet")
    assert json.loads(invoke(days, *judge))["log_loss"] < before["log_loss"]


@pytest.mark.parametrize(
    ("made_for", "asked"),
    [("random-features", "lda"), ("leaves", "qda"), ("lda", "random-features"), ("qda", "mda")],
)
def test_a_ledger_of_another_model_is_told_by_its_rows(days, made_for, asked):
    result_of(days, *REFRESH, "--model", made_for, "--out", "model.parquet")
    said = invoke(days, *REFRESH, "--model", asked, "--out", "other.parquet", code=1)
    assert "was made for another model: choose that with --model" in said
    assert "other.parquet" not in names_in(days)


def test_a_refresh_replaces_what_is_no_model_only_if_a_model_is_named(days, made):
    model, source = load(made / "model.parquet"), scan_parquet(made / "days", "kind", features=FEATURES)
    for saved, said in (model.statistics_, "statistics"), (model.as_pipeline(source), "a pipeline"):
        saved.save(days / "model.parquet")
        assert f"holds {said}" in invoke(days, *REFRESH, "--out", "model.parquet", code=1)
        assert "ledger" not in names_in(days)
    invoke(days, *REFRESH, "--model", "qda", "--out", "model.parquet")


def test_a_refresh_that_does_nothing_says_what_it_would_read(days):
    assert "would read 2 files" in invoke(days, *REFRESH, "--dry-run", "--out", "model.parquet")
    assert names_in(days) == ["days"]
    assert invoke(days, *REFRESH, "--quiet", "--out", "model.parquet") == ""


@pytest.fixture
def drifting(days, iris):
    """Two nights that are alike, and a third file with other petals; with what a refresh is to be told."""
    invoke(days, *REFRESH, "--out", "model.parquet")
    iris.assign(petal_width=iris["petal_width"] + 1).to_parquet(days / "days" / "3.parquet")
    return days


GUARDED = [*REFRESH, "--max-shift", "0.5", "--max-divergence", "1e9", "--out", "model.parquet"]


def guarded(folder, *arguments, code=0):
    """What a refresh says on stdout and stderr, and how many rows its model has learnt."""
    result = result_of(folder, *GUARDED, *arguments, code=code)
    return result.stdout, result.stderr, streamgda.load(folder / "model.parquet").statistics_.n_rows


def test_an_alarm_stands_night_after_night_until_it_is_accepted(drifting):
    for _ in range(2):
        out, err, rows = guarded(drifting, code=3)
        assert "alarm of 3.parquet: class setosa: the mean of petal_width has shifted by 9." in out
        assert err.startswith(
            "Error: nothing has changed, since files lie too far: 3.parquet (class setosa: "
        )
        assert (err.count("\n"), rows) == (1, 150)
    document = json.loads(guarded(drifting, "--json", code=3)[0])
    assert list(document["alarms_by_file"]) == ["3.parquet"]
    assert document["out"] is None
    assert guarded(drifting, "--leave-out", "3.parquet")[1:] == ("", 150)
    assert guarded(drifting, "--accept")[1:] == ("", 300)
    (drifting / "days" / "3.parquet").unlink()
    assert guarded(drifting)[2] == 150


def test_new_classes_and_shares_can_be_an_alarm(drifting, iris):
    iris.assign(kind="lily").to_parquet(drifting / "days" / "3.parquet")
    said = invoke(drifting, *REFRESH, "--no-new-classes", "--max-share-shift", "6", code=3)
    assert "3.parquet (class lily is new; class setosa: its share has moved from 0.3333 to 0, by -" in said


def test_where_no_model_is_made_none_is_reported(days, iris):
    invoke(days, *REFRESH, "--out", "model.parquet")
    iris[:1].assign(kind="setosa ").to_parquet(days / "days" / "3.parquet")
    result = result_of(days, *REFRESH, "--out", "model.parquet", "--json", code=1)
    assert json.loads(result.stdout)["out"] is None
    assert "class 'setosa '" in result.stderr


def test_a_file_that_cannot_be_read_can_be_skipped(days, made):
    (days / "days" / "3.parquet").write_bytes((made / "damaged.parquet").read_bytes())
    assert "3.parquet" in invoke(days, *REFRESH, code=1)
    said = invoke(days, *REFRESH, "--skip-unreadable", code=2)
    assert said == "Error: --skip-unreadable is now --on-error skip. See 'streamgda refresh --help'\n"
    assert "skipped 3.parquet: " in result_of(days, *REFRESH, "--on-error", "skip", code=4).stdout
    result = result_of(days, *REFRESH, "--on-error", "skip", "--quiet", "--out", "model.parquet", code=4)
    assert result.stdout == ""
    assert result.stderr.startswith("Warning: skipped 3.parquet: ")
    assert "Error: 1 file left out" in result.stderr
    assert load(days / "model.parquet").statistics_.n_rows == 150


def test_the_pages_list_the_models():
    said = " ".join(invoke(ROOT, "search", "--help").split())
    assert f"({', '.join(MODELS)})" in said
    page = (ROOT / "examples" / "guides" / "reference.md").read_text()
    assert set(re.findall("`([a-z-]+)`", re.search("`--model` is ([^.]*)\\.", page)[1])) == {*MODELS}


def test_predict_writes_what_the_model_says_of_each_row_in_order(made, iris, tmp_path):
    arguments = [made / "model.parquet", "days", "--out", tmp_path / "scored", "--keep", "id"]
    invoke(made, "predict", *arguments)
    scored = pq.read_table(tmp_path / "scored").to_pandas()
    peer = sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis().fit(iris[FEATURES], iris["kind"])
    assert (scored["id"] == iris["id"]).all()
    assert (scored["predicted_label"] == peer.predict(iris[FEATURES])).all()
    np.testing.assert_allclose(
        scored[[f"probability_{kind}" for kind in peer.classes_]],
        peer.predict_proba(iris[FEATURES]),
        rtol=1e-6,
        atol=1e-9,
    )
    again = json.loads(invoke(made, "predict", *arguments, "--json"))
    assert (again["n_rows"], again["n_parts"], again["n_found"]) == (150, 2, 2)


def test_predict_takes_zarr_and_other_columns(made, tmp_path):
    invoke(made, "predict", "digits.parquet", "digits.zarr", "--columns", "label,distance,reasons",
           "--keep", "y", "--out", tmp_path / "scored")  # fmt: skip
    scored = pq.read_table(tmp_path / "scored")
    assert scored.column_names == ["y", "predicted_label", "distance", "reason_1", "contribution_1"]
    X, _ = load_digits(return_X_y=True)
    model = streamgda.load(made / "digits.parquet")
    found = model.predict(X)
    assert (scored["predicted_label"].to_numpy() == found).all()
    distances = model.mahalanobis(X)[np.arange(len(X)), found]  # the digits are their own positions
    np.testing.assert_allclose(scored["distance"].to_numpy(), distances, rtol=1e-9)
    values, _ = model.contributions(X)
    best = abs(values).argmax(axis=1)
    assert scored["reason_1"].to_pylist() == [f"x{j}" for j in best]
    strongest = values[np.arange(len(X)), best]
    np.testing.assert_allclose(scored["contribution_1"].to_numpy(), strongest, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "missing", "rows"), [("qda", "drop", 149), ("qda", "marginal", 150), ("ridge", "drop", 149)]
)
def test_rows_with_holes_are_left_out_or_judged_by_what_they_have(iris, tmp_path, model, missing, rows):
    holed = iris.copy()
    holed.loc[7, "petal_length"] = np.nan
    iris.to_parquet(tmp_path / "iris.parquet")
    holed.to_parquet(tmp_path / "holed.parquet")
    invoke(
        tmp_path,
        "fit",
        "iris.parquet",
        "--target",
        "kind",
        "--features",
        NAMES,
        "--model",
        model,
        "--out",
        "model",
    )
    arguments = ["model", "holed.parquet", "--target", "kind"]
    assert "row 7: feature 'petal_length' is NaN" in invoke(tmp_path, "evaluate", *arguments, code=1)
    report = json.loads(invoke(tmp_path, "evaluate", *arguments, "--missing", missing, "--json"))
    assert (report["n_rows"], report["n_dropped"]) == (rows, 150 - rows)
    arguments = ["model", "holed.parquet", "--missing", missing, "--out", "scored"]
    said = json.loads(invoke(tmp_path, "predict", *arguments, "--json"))
    assert (said["n_rows"], said["n_dropped"]) == (rows, 150 - rows)


def test_reasons_of_rows_with_holes_name_a_remedy_that_works(iris, tmp_path):
    holed = iris.copy()
    holed.loc[7, "petal_length"] = np.nan
    holed.to_parquet(tmp_path / "holed.parquet")
    made = ["holed.parquet", "--target", "kind", "--features", NAMES, "--missing", "marginal", "--out", "m"]
    invoke(tmp_path, "fit", *made, "--model", "lda")
    asked = ["predict", "m", "holed.parquet", "--columns", "label,reasons", "--out", "scored"]
    complete = (
        "complete rows alone; set --missing raise, and fill in missing values first, or leave such rows"
    )
    assert complete in invoke(tmp_path, *asked, code=1)
    said = invoke(tmp_path, *asked, "--missing", "raise", code=1)
    assert "--missing drop; or fill it in first" in said
    assert "marginal" not in said
    assert "n_rows: 149" in invoke(tmp_path, *asked, "--missing", "drop")
    model = streamgda.load(tmp_path / "m").set_params(missing="raise")
    for rows in (holed[NAMES.split(",")], holed[NAMES.split(",")].to_dict("records")):
        with pytest.raises(ValueError, match="row 7: .* NaN or null.*; or fill it in first") as caught:
            model.contributions(rows)
        assert "marginal" not in str(caught.value)


def test_evaluate_reports_what_the_library_finds(made, iris):
    report = json.loads(invoke(made, "evaluate", "model.parquet", "days", "--target", "kind", "--json"))
    model = streamgda.load(made / "model.parquet")
    expected = evaluate(model, iris[FEATURES], iris["kind"]).to_dict()
    assert report["confusion_matrix"] == expected["confusion_matrix"]
    assert report["accuracy"] == metrics.accuracy_score(iris["kind"], model.predict(iris[FEATURES]))
    for name in ("log_loss", "brier_score"):
        assert report[name] == pytest.approx(expected[name], rel=1e-9)
    for found, due in zip(report["classes"], expected["classes"], strict=True):
        assert (found["label"], found["roc_auc"]) == (due["label"], pytest.approx(due["roc_auc"], rel=1e-9))
    assert "accuracy 0.9800" in invoke(made, "evaluate", "model.parquet", "days", "--target", "kind")


def test_reports_are_pages_of_html_too(made, tmp_path):
    page = tmp_path / "page.html"
    said = invoke(made, "evaluate", "model.parquet", "days", "--target", "kind", "--html", page)
    assert said.splitlines()[0] in page.read_text("utf-8")
    assert page.read_text("utf-8").count("<th>") > 3
    arguments = ["refresh", tmp_path / "ledger", "days", "--target", "kind", "--exclude", "id"]
    out = invoke(made, *arguments, "--html", page)
    assert all(line in page.read_text("utf-8") for line in out.splitlines())


def test_a_threshold_of_a_positive_class(made, iris, tmp_path):
    options = ["--threshold", "0.001", "--pos-label", "versicolor", "--json"]
    report = json.loads(invoke(made, "evaluate", "model.parquet", "days", "--target", "kind", *options))
    model, features = streamgda.load(made / "model.parquet"), iris[FEATURES]
    expected = model.predict(features)
    expected[model.predict_proba(features)[:, 1] >= 0.001] = "versicolor"
    assert report["confusion_matrix"] == metrics.confusion_matrix(iris["kind"], expected).tolist()
    assert report["pos_label"] == "versicolor"
    invoke(made, "predict", "model.parquet", "days", "--out", tmp_path / "scored", *options)
    scored = pq.read_table(tmp_path / "scored")["predicted_label"].to_numpy()
    assert (np.sort(scored) == np.sort(expected)).all()


def test_json_holds_no_numbers_that_are_none(made, iris, tmp_path):
    """Of rows of one class there is no ROC curve: its area is NaN, which JSON has not."""
    iris[iris["kind"] == "setosa"].to_parquet(tmp_path / "one.parquet")

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    said = invoke(tmp_path, "evaluate", made / "model.parquet", "one.parquet", "--target", "kind", "--json")
    assert json.loads(said, parse_constant=refuse)["classes"][0]["roc_auc"] is None


@pytest.mark.slow
def test_text_is_told_by_its_name_in_every_command(made, iris, tmp_path):
    iris = iris.drop(columns="id")
    (tmp_path / "days").mkdir()
    for i in range(2):
        iris[i::2].to_csv(tmp_path / "days" / f"{i}.csv", index=False)
    iris.to_csv(tmp_path / "all.txt", sep=";", decimal=",", index=False)
    invoke(tmp_path, "fit", "days", "--target", "kind", "--out", "model.parquet")
    whole = load(made / "model.parquet")
    assert load(tmp_path / "model.parquet").statistics_.allclose(whole.statistics_, rtol=1e-12)
    assert "150 rows" in invoke(tmp_path, "evaluate", "model.parquet", "days/*.csv", "--target", "kind")
    assert "n_rows: 75" in invoke(tmp_path, "predict", "model.parquet", "days/1.csv", "--out", "scored")
    assert "read 2 files" in invoke(tmp_path, "refresh", "ledger", "days", "--target", "kind")
    said = json.loads(invoke(tmp_path, "inspect", "days", "--json"))
    assert (said["format"], said["files"], said["rows"]) == ("CSV", 2, 150)
    assert said["columns"][-1] == {"column": "kind", "type": "string"}
    assert "rows: 80\n" in invoke(made, "inspect", "days/1.parquet")
    assert "--format" in fails(tmp_path, "fit", "all.txt", "--target", "kind", "--out", "model.parquet")
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "all.csv").write_bytes((tmp_path / "all.txt").read_bytes())
    semicolons = "--format", "csv delimiter=; decimal_point=,"
    assert "--format" in invoke(tmp_path, "inspect", "all.txt", code=1)
    assert "{} '{}'".format(*semicolons) in invoke(tmp_path, "inspect", "exported", code=1)
    assert "sepal_width double" in invoke(tmp_path, "inspect", "all.txt", *semicolons)
    fit = "fit", "all.txt", "--target", "kind", "--out", "model.parquet"
    invoke(tmp_path, *fit, *semicolons)
    assert load(tmp_path / "model.parquet").statistics_.n_rows == 150


def test_inspect_tells_models_statistics_and_their_faults(made, tmp_path):
    said = json.loads(invoke(made, "inspect", "model.parquet", "--json"))
    assert said["kind"] == "QuadraticDiscriminantAnalysis"
    assert said["feature_names"] == FEATURES
    assert said["bytes"] == (made / "model.parquet").stat().st_size
    assert [tuple(c.values()) for c in said["classes"]] == [
        ("setosa", 50, 50.0),
        ("versicolor", 50, 50.0),
        ("virginica", 50, 50.0),
    ]
    assert (said["can_predict"], said["cannot_predict"]) == ([said["kind"]], {})
    accumulate(scan_parquet(made / "days" / "1.parquet", "kind", features=["sepal_width", "id"])).merge(
        streamgda.ClassStatistics().update([[0.0, 0.0], [1.0, 1.0]], ["new", "new"])
    ).save(tmp_path / "statistics.parquet")
    said = json.loads(invoke(tmp_path, "inspect", "statistics.parquet", "--json"))
    able = ["LinearDiscriminantAnalysis", "GaussianNB", "GaussianDiscriminantAnalysis", "RidgeClassifier"]
    assert said["can_predict"] == able
    assert [*said["cannot_predict"]] == [
        *("QuadraticDiscriminantAnalysis", "MixtureDiscriminantAnalysis"),
        *("LeafClassifier", "RandomFeatureClassifier"),
    ]
    said = invoke(tmp_path, "inspect", "statistics.parquet")
    assert f"\ncan_predict: {', '.join(able)}\n" in said
    assert "\ncannot_predict QuadraticDiscriminantAnalysis: The covariance matrix of class new is" in said


# ---------------------------------------------------------------------- what is offered works


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """Rows in two files, the same with a column of text, and a model and statistics of them."""
    folder, rng = tmp_path_factory.mktemp("offered"), np.random.default_rng(0)
    (folder / "rows" / "day=1").mkdir(parents=True)
    y = rng.integers(0, 2, 240)
    x, z, w = rng.normal(size=240) + 2 * y, rng.normal(size=240), rng.integers(1, 3, 240)
    table = pa.table({"x": x, "z": z, "w": w, "g": np.arange(240) % 20, "y": y})
    for i in range(6):
        pq.write_table(table.slice(40 * i, 40), folder / "rows" / "day=1" / f"{i}.parquet")
    pq.write_table(table.append_column("town", [rng.choice(["a", "b"], 240)]), folder / "towns.parquet")
    data = [folder / "rows", "--target", "y", "--features", "x,z"]
    invoke(folder, "fit", *data, "--out", "model.parquet")
    for model in MODELS:
        invoke(folder, "fit", *data, "--statistics", "--model", model, "--out", f"{model}.parquet")
    return folder


@pytest.mark.slow
def test_leaves_are_fitted_searched_for_evaluated_and_predicted(offered, tmp_path):
    data = str(offered / "rows"), "--target", "y", "--features", "x,z"
    invoke(tmp_path, "fit", *data, "--model", "leaves", "--alpha", "3", "--out", "model.parquet")
    model = load(tmp_path / "model.parquet")
    said = json.loads(invoke(tmp_path, "evaluate", "model.parquet", *data[:3], "--json"))
    source = scan_parquet(offered / "rows", "y", features=["x", "z"])
    assert said["accuracy"] == streamgda.evaluate(model, source).accuracy
    invoke(tmp_path, "predict", "model.parquet", data[0], "--out", "scored")
    rows = pq.read_table(offered / "rows").select(["x", "z"]).to_pandas()
    written = pq.read_table(tmp_path / "scored")["predicted_label"].to_numpy()
    np.testing.assert_array_equal(written, model.predict(rows))
    tried = "--scoring", "accuracy", "--try", "leaves", "--try", "random-features features=20", "--cv", "3"
    said = invoke(tmp_path, "search", *data, *tried)
    assert "leaves" in said
    assert "random-features" in said


def command_line(command, folder, model):
    """Words with which a command does its work."""
    rows, saved = str(folder / "rows"), str(folder / "model.parquet")
    return {
        "fit": ["fit", rows, "--target", "y", "--out", "out"],
        "search": ["search", rows, "--target", "y", "--scoring", "accuracy", "--try", "lda"],
        "update": ["update", saved, rows, "--target", "y", "--out", "out"],
        "merge": ["merge", str(folder / f"{model}.parquet"), "--out", "out"],
        "refresh": ["refresh", "ledger", rows, "--target", "y"],
        "predict": ["predict", saved, rows, "--out", "out"],
        "evaluate": ["evaluate", saved, rows, "--target", "y"],
        "inspect": ["inspect", saved],
    }[command]


VALUES = {  # by option, where words are not all that it takes; a new option needs an example
    "target": "y", "fold": "w", "features": "x,z", "exclude": "w", "weight": "w", "filters": "x>=0",
    "keep": "g", "groups": "g", "by": "rows files g", "test": "0.5", "format": "parquet",
    "categories": "town auto none", "missing": "", "out": "", "leave_out": "",
    "rows_per_task": "100", "retries": "1", "quantile": "0.1",
    "checkpoint": "states", "scheduler": "threads synchronous", "tried": " ".join(MODELS), "cv": "3",
    "scoring": " ".join(METRICS), "folds": "3", "columns": "label distance,log_density", "top": "2",
    "threshold": "0.5", "pos_label": "0", "priors": "0.3,0.7", "max_shift": "9", "max_divergence": "9",
    "max_share_shift": "9", "temperature": "9", "half_life": "9", "shrinkage": "0.1", "pooling": "0.1",
    "reg_param": "0.1", "tol": "0.1", "var_smoothing": "0.1", "max_df": "0.1", "alpha": "0.1",
    "n_components": "1", "subclasses": "1", "subclasses__random_state": "1", "categories__alpha": "1",
    "categories__ridge": "0.1", "calibration_rows": "200", "categories__max_categories": "200",
    "subclasses__rows_per_class": "200", "device": "", "html": "page.html", "hive_types": "day=string",
    "sql": "",
}  # fmt: skip
BESIDE = {
    "predict quantile": ["--columns", "label,set"],
    "predict pos_label": ["--threshold", "0.5"],
    "refresh groups": ["--folds", "3"],
    "refresh model": ["--out", "out"],
}


def of_table():
    """The options of all commands; those of models once, but for the models themselves."""
    seen = set()
    for name, command in main.commands.items():
        for option in command.get_params(click.Context(command)):
            place = getattr(option.callback, "args", ["click"])[0]
            once = option.name if place == "model" and option.name != "model" else (name, option.name)
            if isinstance(option, click.Option) and option.name != "help" and once not in seen:
                seen.add(once)
                yield pytest.param(name, option, id=f"{name}{option.opts[-1]}")


@pytest.mark.parametrize(("command", "option"), [*of_table()])
def test_each_value_of_each_option_works(offered, tmp_path, command, option):
    """One that some models take is clearly refused by the others."""
    words = [*getattr(option.type, "choices", ()), *re.findall(r"\b[a-z]\w*", option.metavar or "")]
    given = [[option.opts[-1], word] for word in words]
    if option.is_flag:
        given = [[one] for one in (option.opts[-1], *option.secondary_opts)]
    elif not words or "|" in (option.metavar or ""):
        given += [[option.opts[-1], value] for value in VALUES[option.name].split()]
    of = re.match(r"([a-z, -]+): ", option.help)
    models = [one for one in (of[1].split(", ") if of else MODELS) if one in MODELS]
    if option.name == "model" or getattr(option.callback, "args", None) != ("model",):
        models = [None]
    for flags in given:
        codes = {}
        for model in models:
            line = command_line(command, offered, flags[-1] if option.name == "model" else "qda")
            line += [
                *(["--model", model] if model else []),
                *flags,
                *BESIDE.get(f"{command} {option.name}", []),
            ]
            if option.name.startswith("categories") and flags[-1] != "none":
                line = [str(offered / "towns.parquet") if word.endswith("rows") else word for word in line]
                line += [] if option.name == "categories" else ["--categories", "town"]
            folder = tmp_path / f"{flags[-1]} {model}"
            folder.mkdir()
            with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
                patch.chdir(folder)
                warnings.simplefilter("ignore")
                result = CliRunner().invoke(main, line)
            codes[model] = result.exit_code
            assert "--debug" not in result.stderr, (line, result.stderr)
        assert 0 in codes.values(), (line, codes, result.output)


# ---------------------------------------------------------------------- bad data is one line, and exit code 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "none.parquet", "--target", "kind", "--out", "{out}"], "no file or folder none.parquet"),
        (["fit", "days", "--target", "kin", "--out", "{out}"], "no column 'kin'; did you mean 'kind'?"),
        (["evaluate", "cut.parquet", "days", "--target", "kind"], "cut.parquet is truncated, damaged or no"),
        (["update", "model.parquet", "damaged.parquet", "--target", "kind"],
         "damaged.parquet cannot be read"),
        (["merge", "model.parquet", "digits.parquet", "--out", "{out}"], "only models of one kind merge"),
        (["predict", "statistics.parquet", "days", "--out", "{out}"], "holds statistics and no model"),
        (["merge", "none.parquet", "--out", "{out}"], "there is no file none.parquet"),
        (["merge", "model.parquet", "--model", "nb", "--priors", ".5,.5", "--out", "{out}"],
         "there are 3: 'setosa', 'versicolor', 'virginica'"),
        (["refresh", "{out}", "digits.zarr"], "a ledger keeps up with files"),
        (["update", "days/1.parquet", "days", "--target", "kind"], "is a Parquet file of something else"),
        (["fit", "ftp://127.0.0.1:1/1.parquet", "--target", "z", "--out", "{out}"],
         "ftp://127.0.0.1:1/1.parquet cannot be reached: "),
        (["fit", "days", "--target", "kind", "--filter", "age>3", "--out", "{out}"],
         "filters: there is no column 'age'"),
    ],
)  # fmt: skip
def test_bad_data_is_one_line(made, tmp_path, arguments, said):
    out = tmp_path / "out"
    assert said in invoke(made, *(argument.format(out=out) for argument in arguments), code=1)
    assert names_in(tmp_path) == []


def test_debug_shows_where_an_error_comes_from(tmp_path):
    arguments = ["fit", str(tmp_path / "none"), "--target", "kind", "--out", "m", "--debug"]
    with pytest.raises(FileNotFoundError, match="there is no file or folder .*none"):
        CliRunner().invoke(main, arguments, catch_exceptions=False)


# ---------------------------------------------------------------------- bad usage is exit code 2


def test_bad_usage_is_one_line_that_points_to_the_help(made):
    assert fails(made, "fit", "days", "--target", "kind", code=2) == (
        "Error: Missing option '--out'. See 'streamgda fit --help'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["guess"], "No such command 'guess'. See 'streamgda --help'"),
        (["--fast"], "See 'streamgda --help'"),
        (["predict", "m", "days", "--output", "3"], "'streamgda predict --help'"),
        (["fit", "days", "--out", "m"], "Missing option '--target': the column of labels. See"),
        (["fit", "--target", "kind", "--out", "m"], "Missing argument 'DATA...'"),
        (["fit", "", "--target", "kind", "--out", "m"], "it is empty"),
        ([*FIT, "--model", "svm"], "'svm' is not one of 'qda'"),
        ([*FIT, "--shrinkage", "2"], "'shrinkage' parameter of QuadraticDiscriminantAnalysis must be a"),
        ([*FIT, "--model", "edda", "--covariance-model", "XYZ"], "'XYZ' is not one of 'EEE'"),
        ([*FIT, "--model", "lda", "--reg-param", "0.1"], "Invalid parameter 'reg_param' for estimator"),
        (["merge", "model.parquet", "--priors", "1", "--out", "m"], "choose one with --model"),
        ([*FIT, "--filter", "id"], "'id' is no comparison such as 'day>=3'"),
        ([*FIT, "--hive-types", "day"], "'day' is no list of keys and types such as 'store=string"),
        (["merge", "model.parquet", "./model.parquet", "--out", "m"],
         "A file is named twice: its rows would count twice"),
        (["refresh", "ledger", "days", "--target", "kind", "--model", "lda"], "are for the model that --out"),
        ([*FIT, "--features", ""], "'': a name is empty"),
        ([*FIT, "--exclude", "id,,"], "'id,,': a name is empty"),
        ([*FIT, "--reg-param", "nan"], "Got nan instead"),
    ],
)  # fmt: skip
def test_more_bad_usage(made, arguments, said):
    assert said in invoke(made, *arguments, code=2)


# ---------------------------------------------------------------------- nothing is lost or half-written


def test_what_is_no_model_is_not_overwritten(made, tmp_path):
    data, before = tmp_path / "data.parquet", (made / "iris.parquet").read_bytes()
    data.write_bytes(before)
    arguments = ["fit", "data.parquet", "--target", "kind", "--features", NAMES, "--out"]
    assert "will not overwrite data.parquet" in invoke(tmp_path, *arguments, "data.parquet", code=1)
    assert data.read_bytes() == before
    for _ in range(2):
        assert "out: model.parquet" in invoke(tmp_path, *arguments, "model.parquet")
    os.mkfifo(tmp_path / "pipe")
    for out, said in (
        ("none/model.parquet", f"there is no folder {tmp_path / 'none'}\n"),
        (".", ". is a folder"),
        ("pipe", "pipe, which is no regular file"),
        ("data.parquet/model", f"there is no folder {data}\n"),
    ):
        assert said in invoke(tmp_path, *arguments, out, code=1)
    assert names_in(tmp_path) == ["data.parquet", "model.parquet", "pipe"]


def test_nothing_is_written_where_it_would_be_read_as_data(made):
    learn = ["days", "--target", "kind", "--features", NAMES]
    for command in (["fit", *learn, "--out", "days/model.parquet"], ["refresh", "days/ledger", *learn]):
        assert "would be" in invoke(made, *command, code=1)
    assert "folder of other things" in invoke(made, "refresh", "digits.zarr", *learn, code=1)
    assert names_in(made / "days") == ["1.parquet", "2.parquet"]


@pytest.fixture(scope="module")
def long_work(tmp_path_factory):
    """Files that take a while, a model of them, and what it says of them."""
    folder, rng = tmp_path_factory.mktemp("long"), np.random.default_rng(0)
    (folder / "days").mkdir()
    for day in range(8):
        X, y = rng.normal(size=(100_000, 8)), rng.integers(0, 4, 100_000)
        table = pa.table({**{f"x{j}": X[:, j] + y for j in range(8)}, "y": y})
        pq.write_table(table, folder / "days" / f"{day}.parquet")
    QuadraticDiscriminantAnalysis().fit(scan_parquet(folder / "days", "y")).save(folder / "model.parquet")
    return folder


INTERRUPTED = "Error: interrupted; no file is half-written, and predict and refresh go on where they stopped"


def waiting_after(n, function, owner, folder):
    """The environment of processes in which a function waits for the end of its process after n calls."""
    (folder / "preload").mkdir()
    (folder / "preload/sitecustomize.py").write_text(
        "from pkgutil import resolve_name\n"
        "from tests.interrupted import let_pass\n"
        f"owner = resolve_name({owner!r})\n"
        f"owner.{function} = let_pass(owner.{function}, {n}, {str(folder / 'preload/waits')!r})\n"
    )
    return environment(PYTHONPATH=os.pathsep.join([str(folder / "preload"), str(ROOT)]))


PARTS = "write", "streamgda.jobs.scoring.outputs.parquet:ParquetOutput"


def interrupt(process):
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, ""), err
    return err.splitlines()[-1]


@pytest.mark.slow
def test_predict_goes_on_after_ctrl_c(long_work, tmp_path):
    names = ",".join(f"x{j}" for j in range(8))
    arguments = ["predict", "model.parquet", "days", "--features", names, "--out"]
    waiting = waiting_after(3, *PARTS, tmp_path)
    process = start(long_work, *arguments, tmp_path / "scored", "--scheduler", "synchronous", env=waiting)
    while process.poll() is None and len([*tmp_path.glob("scored/part-*")]) < 3:
        time.sleep(0.001)
    assert interrupt(process) == INTERRUPTED
    parts = names_in(tmp_path / "scored")
    assert len(parts) == 3
    assert all(pq.read_metadata(tmp_path / "scored" / part).num_rows == 100_000 for part in parts)
    said = json.loads(invoke(long_work, *arguments, tmp_path / "scored", "--json"))
    assert (said["n_rows"], said["n_parts"], said["n_found"]) == (800_000, 8, len(parts))
    invoke(long_work, *arguments, tmp_path / "at_once")
    assert pq.read_table(tmp_path / "scored") == pq.read_table(tmp_path / "at_once")


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_ctrl_c_waits_for_no_task(long_work, tmp_path, scheduler):
    arguments = ["predict", long_work / "model.parquet", long_work / "days/0.parquet", "--out", "scored"]
    process = start(tmp_path, *arguments, "--scheduler", scheduler, env=waiting_after(0, *PARTS, tmp_path))
    until((tmp_path / "preload/waits").exists)
    assert interrupt(process) == INTERRUPTED
    assert not [*tmp_path.glob("scored/part-*")]
    assert "n_rows: 100000\nn_parts: 1\n" in invoke(tmp_path, *arguments)


@pytest.mark.slow
def test_fit_leaves_what_was_there_after_ctrl_c(long_work, tmp_path):
    before = (long_work / "model.parquet").read_bytes()
    (tmp_path / "model.parquet").write_bytes(before)
    arguments = [long_work / "days", "--target", "y", "--out", "model.parquet", "--progress"]
    waiting = waiting_after(1, "accumulate_splits", "streamgda.jobs.passes.accumulate", tmp_path)
    process = start(tmp_path, "fit", *arguments, "--scheduler", "synchronous", env=waiting)
    until((tmp_path / "preload/waits").exists)
    assert interrupt(process) == INTERRUPTED
    assert names_in(tmp_path) == ["model.parquet", "preload"]
    assert (tmp_path / "model.parquet").read_bytes() == before


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(made):
    process = start(made, "inspect", "model.parquet")
    process.stdout.close()
    process.wait(timeout=300)
    assert process.stderr.read() == ""
    process.stderr.close()


# ---------------------------------------------------------------------- where it runs and what it shows


def test_a_cluster_learns_the_same_bits(made, client, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # the time at which a file was saved
    arguments = ["days", "--target", "kind", "--features", NAMES, "--out"]
    address = client.scheduler.address
    invoke(made, "fit", *arguments, tmp_path / "there.parquet", "--scheduler", address)
    invoke(made, "fit", *arguments, tmp_path / "here.parquet", "--scheduler", "synchronous")
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()
    assert "there is no column" in invoke(made, "fit", "days", "--target", "x", "--out", tmp_path / "m",
                                          "--scheduler", address, code=1)  # fmt: skip
    invoke(made, "predict", "model.parquet", "days", "--out", tmp_path / "scored", "--scheduler", address)
    assert pq.read_table(tmp_path / "scored").num_rows == 150


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_said_soon(made, tmp_path):
    arguments = ["fit", "days", "--target", "kind", "--features", NAMES, "--out", tmp_path / "m"]
    said = invoke(made, *arguments, "--scheduler", "tcp://127.0.0.1:1", code=1)
    assert said == "Error: Timed out trying to connect to tcp://127.0.0.1:1 after 5 s\n"


def test_a_cluster_that_needs_certificates_is_said_at_once(made, tmp_path):
    arguments = ["fit", "days", "--target", "kind", "--features", NAMES, "--out", tmp_path / "m"]
    said = invoke(made, *arguments, "--scheduler", "tls://127.0.0.1:1", code=1)
    assert "perhaps check your TLS configuration?" in said


def test_progress_is_shown_in_a_terminal_alone(made, tmp_path, capsys):
    arguments = ["fit", "days", "--target", "kind", "--features", NAMES, "--out", tmp_path / "model.parquet"]
    shown = in_terminal(made, *arguments)
    assert "150/150" in shown
    assert "rows/s" in shown
    assert "n_rows: 150" in capsys.readouterr().out
    assert in_terminal(made, *arguments, "--quiet") == capsys.readouterr().out == ""


def in_terminal(folder, *arguments):
    """What a command writes to stderr where that is a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    with os.fdopen(theirs, "w") as terminal, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "stderr", terminal)
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
    assert ended.value.code is None
    shown = b""
    try:
        while read := os.read(ours, 1 << 16):
            shown += read
    except OSError:  # how Linux says that the other side has closed
        os.close(ours)
    return shown.decode()


# ---------------------------------------------------------------------- help


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from click.testing import CliRunner; from streamgda.cli.main import MODELS, main\n"
        "for command in ([], *([name] for name in main.commands)):\n"
        "    assert CliRunner().invoke(main, [*command, '--help']).exit_code == 0\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
    )
    assert not set(done.stdout.split()) & {"numpy", "dask", "pyarrow", "sklearn", "zarr", "matplotlib"}


def test_a_newcomer_finds_the_commands(tmp_path):
    assert [*main.commands] == COMMANDS
    said = invoke(tmp_path)
    assert said == invoke(tmp_path, "--help")
    assert all(f"\n  {name} " in said for name in COMMANDS)
    assert "..." not in said.split("Commands:")[1]  # every summary fits its line
    assert invoke(tmp_path, "--version") == f"streamgda, version {streamgda.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_says_what_it_does(name, tmp_path):
    said = invoke(tmp_path, name, "--help")
    assert f"  streamgda {name} " in said
    for option in main.commands[name].params:
        if isinstance(option, click.Option):
            assert option.help


def test_the_table_of_options_has_the_signatures_and_docstrings_of_the_library():
    pytest.importorskip("numpydoc")
    from tests.cli.table import TABLE, table

    assert json.loads(TABLE.read_text("utf-8")) == table()
    assert table()["options"]["model"]["alpha"]["type"] == "gcv|auto|NUMBER"  # of ridge, and of leaves


def test_the_script_is_the_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"streamgda": "streamgda.cli.main:main"}


# ---------------------------------------------------------------------- search


@pytest.fixture
def irises(tmp_path):
    X, y = load_iris(return_X_y=True)
    columns = dict(zip(FEATURES, X.T, strict=True))
    pq.write_table(pa.table({**columns, "kind": y, "plant": np.arange(150) % 30}), tmp_path / "iris.parquet")
    return tmp_path / "iris.parquet"


def search(folder, data, *options, **how):
    return invoke(folder, "search", data, "--target", "kind", *options, **how)


def test_search_finds_and_saves_the_best_model(irises, tmp_path):
    tried = ["--try", "qda reg-param=0,0.1,0.9 shrinkage=none,0.01", "--try", "lda", "--try", "nb"]
    options = [irises, "--groups", "plant", *tried]
    text = search(tmp_path, *options, "--out", "best.model")
    assert text.startswith("scoring: log_likelihood\nn_splits: 5\nn_reads: 1\n")
    assert text.split("candidates:\n")[1].split()[:5] == ["rank", "mean", "std", "model", "params"]
    document = json.loads(search(tmp_path, *options, "--json"))
    assert document["candidates"][0]["params"] == {"reg_param": 0, "shrinkage": 0.01}
    assert len(document["candidates"]) == 8
    expected = accumulate(scan_parquet(irises, "kind", exclude=["plant"]))
    assert load(tmp_path / "best.model").statistics_.allclose(expected)


def test_one_part_is_learnt_and_the_other_judged(irises, tmp_path):
    source = scan_parquet(irises, "kind", exclude=["plant"])
    for options in (["--test", 0.3], ["--test", 0.3, "--by", "plant"], ["--by", "rows"]):
        how = dict(zip(["test", "by"] if len(options) == 4 else [options[0][2:]], options[1::2], strict=True))
        training, test = source.split(**how)
        leave_out = [] if "plant" in options else ["--exclude", "plant"]
        data = [irises, "--target", "kind", *options]
        invoke(tmp_path, "fit", *data, *leave_out, "--model", "lda", "--out", "model")
        assert load(tmp_path / "model").statistics_.allclose(accumulate(training, "tied"))
        report = json.loads(invoke(tmp_path, "evaluate", "model", *data, "--json"))
        expected = evaluate(load(tmp_path / "model"), test)
        assert (report["n_rows"], report["accuracy"]) == (expected.n_rows, expected.accuracy)
        search(tmp_path, irises, *options, *leave_out, "--try", "lda", "--out", "best")
        assert load(tmp_path / "best").statistics_.n_rows == accumulate(training, "tied").n_rows
    said = invoke(tmp_path, "fit", *data[:3], "--test", 2, "--out", "m", code=1)
    assert "between 0 and 1" in said


def test_a_quiet_search_prints_its_table_unless_it_saves_the_model(irises, tmp_path):
    options = [irises, "--exclude", "plant", "--try", "lda", "--quiet"]
    assert search(tmp_path, *options).startswith("scoring")
    assert search(tmp_path, *options, "--out", "b.parquet") == ""
    assert load(tmp_path / "b.parquet").statistics_.n_rows == 150
    both = json.loads(search(tmp_path, *options, "--out", "b.parquet", "--json"))
    assert both["candidates"][0]["model"] == "lda"


def test_a_candidate_that_fails_is_explained(irises, tmp_path):
    table, collinear = pq.read_table(irises).drop_columns("plant"), tmp_path / "collinear.parquet"
    pq.write_table(table.append_column("twice", [2 * table[FEATURES[0]].to_numpy()]), collinear)
    arguments = ["search", collinear, "--target", "kind", "--try", "qda reg_param=0,.1"]
    table = result_of(tmp_path, *arguments).stdout
    assert "fold 0: The covariance matrix of class 0 is not full rank" in table.splitlines()[-2]
    best, failed = json.loads(result_of(tmp_path, *arguments, "--json").stdout)["candidates"]
    assert (best["params"], failed["params"]) == ({"reg_param": 0.1}, {"reg_param": 0})
    assert (best["error"], failed["mean"]) == ("", None)
    assert failed["error"].endswith("folds 1, 2, 3, 4: likewise")
    said = search(tmp_path, collinear, "--try", "qda", code=1)
    assert said.startswith("Error: 5 of 5 fits failed. The first: fold 0: The covariance")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--try", "svm"], "'svm' is not one of 'qda'"),
        (["--try", "qda tolerance=1"], "QuadraticDiscriminantAnalysis: there is no parameter 'tolerance'"),
        (["--try", "qda", "--groups", "plants"], "did you mean 'plant'"),
        (["--try", "nb var-smoothing=-1"], "The 'var_smoothing' parameter"),
        (["--try", "edda covariance-model=VEX"], "Got 'VEX' instead"),
        (["--try", "lda", "--try", "leaves", "--missing", "marginal"], "leaves takes complete rows alone"),
    ],
)
def test_a_search_that_cannot_be_made_is_refused(irises, options, message):
    result = CliRunner().invoke(main, ["search", str(irises), "--target", "kind", *options])
    assert result.exit_code
    assert message in result.output


def test_mixtures_are_fitted_updated_and_merged(made, tmp_path):
    days = [str(made / "days" / f"{day}.parquet") for day in (1, 2)]
    data = ("--target", "kind", "--features", "sepal_width,sepal_length")
    mda = ("--model", "mda", "--subclasses", "2", "--exact", "--out", "one.parquet")
    invoke(tmp_path, "fit", *days, *data, *mda)
    invoke(tmp_path, "update", "one.parquet", *days, "--target", "kind", "--out", "twice.parquet")
    invoke(tmp_path, "merge", "one.parquet", "twice.parquet", "--out", "all.parquet")
    invoke(tmp_path, "predict", "all.parquet", *days, "--out", "out.parquet")
    one, twice, every = (streamgda.load(tmp_path / f"{name}.parquet") for name in ("one", "twice", "all"))
    assert twice.subclass_centers_ == one.subclass_centers_
    assert (twice.statistics_.counts == 2 * one.statistics_.counts).all()
    assert every.statistics_ == twice.merge(one).statistics_
    said = json.loads(invoke(tmp_path, "inspect", "one.parquet", "--json"))
    assert [entry["label"] for entry in said["classes"]] == [list(pair) for pair in one.subclasses_]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_warning_of_a_worker_thread_is_said_and_stops_nothing(tmp_path, command):
    rows = {"x": np.arange(40.0), "kind": ["a", "b"] * 20, "y": [0, 0, 1, 1] * 10}
    pq.write_table(pa.table(rows), tmp_path / "old.parquet")
    pq.write_table(pa.table({**rows, "kind": ["a", "new"] * 20}), tmp_path / "new.parquet")
    model, old, new = (str(tmp_path / f"{name}.parquet") for name in ("model", "old", "new"))
    learn = ["fit", old, "--target", "y", "--categories", "kind", "--model", "nb", "--out", model]
    options = {"predict": ["--out", str(tmp_path / "out")], "evaluate": ["--target", "y"]}
    assert CliRunner().invoke(main, learn).exit_code == 0

    for quiet in ([], ["--quiet"]):
        said = warned(tmp_path, command, model, new, *options[command], *quiet)
        assert "storage failed" not in said
        assert ("Warning: categories that no learnt row has" in said) is not bool(quiet)


def test_what_a_model_makes_of_categories_is_an_option_and_a_parameter_to_try(tmp_path):
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=200), "kind": rng.choice(["a", "b"], 200), "y": rng.integers(2, size=200)}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    data = ["rows.parquet", "--target", "y"]
    learn = ["fit", *data, "--out", "model.parquet", "--categories-model"]
    invoke(tmp_path, *learn, "conditional", "--model", "lda")
    shown = invoke(tmp_path, "inspect", "model.parquet")
    assert "parameters: categories=Categorical(model='conditional'), " in shown
    document = json.loads(invoke(tmp_path, "inspect", "model.parquet", "--json"))
    assert document["parameters"]["categories"]["model"] == "conditional"
    said = invoke(tmp_path, *learn, "dummies", "--model", "qda", code=2)
    assert "does not take Categorical(model='dummies')" in said
    invoke(tmp_path, "search", *data, "--try", "nb categories__alpha=1,2")
    said = invoke(tmp_path, "search", *data, "--try", "nb alpha=1,2", code=2)
    assert "alpha is now a parameter of an option: categories=Categorical(alpha=...)" in said


@pytest.fixture
def incomplete(tmp_path):
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=200), "z": rng.normal(size=200), "y": rng.integers(2, size=200)}
    rows["x"][::7] = np.nan
    pq.write_table(pa.table(rows), tmp_path / "incomplete.parquet")
    return str(tmp_path / "incomplete.parquet")


@pytest.mark.parametrize(
    ("arguments", "now"),
    [
        (["search", "--try", "qda", "--max-patterns", "5"], "is now --missing 'marginal max_patterns=...'"),
        (["refresh", "--max-reads", "5"], "is now --missing 'marginal max_reads=...'"),
        (["update", "--em-tol", "1"], "is now --missing 'marginal tol=...'"),
        (["fit", "--categorical-model", "dummies"], "is now --categories-model"),
        (["fit", "--max-categories", "5"], "is now --categories-max-categories"),
        (["fit", "--n-subclasses", "5"], "is now --subclasses"),
        (["refresh", "--reject", "1.parquet"], "is now --leave-out"),
        (["refresh", "--half-life", "7"], "--half-life"),
        (["merge", "--max-reads", "5"], "No such option"),
    ],
)
def test_every_command_names_the_new_spelling_of_an_old_option(incomplete, tmp_path, arguments, now):
    assert now in invoke(tmp_path, arguments[0], incomplete, *arguments[1:], code=2)


def test_a_model_of_a_ledger_keeps_the_policy_of_missing_rows_as_one_of_fit_does(incomplete, tmp_path):
    for command in (["refresh", "ledger"], ["fit"]):
        invoke(tmp_path, *command, incomplete, "--target", "y", "--missing", "marginal max_patterns=64",
               "--out", "out.parquet")  # fmt: skip
        assert streamgda.load(tmp_path / "out.parquet").missing == streamgda.Marginal(max_patterns=64)
