"""The picture of patterns of missing features, and how the command line tells of them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import streamgda
from streamgda import ClassStatistics, IncompleteStatistics
from streamgda.cli.main import main
from streamgda.plotting import MissingPatternsDisplay

nan = float("nan")


@pytest.fixture
def holes(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 3)) + y[:, None]
    X[::3, 1:] = nan
    X[1::5, 0] = nan
    columns = {name: pa.array(X[:, j], from_pandas=True) for j, name in enumerate("abc")}
    pq.write_table(pa.table({**columns, "y": y}), tmp_path / "holes.parquet")
    return X, y


def test_a_picture_shows_each_pattern_and_how_many_rows_have_it(holes):
    state = IncompleteStatistics(feature_names=list("abc")).update(*holes)
    display = MissingPatternsDisplay.from_statistics(state)
    table = state.patterns()
    assert display.image_.get_array().tolist() == table.observed.tolist()
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels[0] == f"{table.counts[0].sum()} rows ({table.counts[0].sum() / 300:.0%})".replace("%", " %")
    assert [label.get_text()[0] for label in display.ax_.get_xticklabels()] == ["a", "b", "c"]
    few = MissingPatternsDisplay.from_statistics(state, max_patterns=1)
    assert few.ax_.get_ylabel() == "patterns, and 3 more"
    with pytest.raises(ValueError, match="patterns of missing features are needed"):
        MissingPatternsDisplay.from_statistics(ClassStatistics().update([[1.0]], [0]))


def run(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_line_learns_incomplete_rows_and_shows_their_patterns(holes, tmp_path):
    X, y = holes
    data, out = tmp_path / "holes.parquet", tmp_path / "model.parquet"
    run("fit", data, "--target", "y", "--missing", "marginal", "--model", "lda", "--out", out)
    model = streamgda.load(out)
    assert model.missing == "marginal"
    expected = streamgda.LinearDiscriminantAnalysis(missing="marginal").fit(X, y)
    assert model.statistics_.moments_for().allclose(expected.statistics_.moments_for(), rtol=1e-6)
    assert "b, c" in run("inspect", out)
    patterns = json.loads(run("inspect", out, "--json"))["patterns"]
    assert sum(entry["rows"] for entry in patterns) == 300
    run("update", out, data, "--target", "y", "--missing", "marginal")
    assert streamgda.load(out).statistics_.n_rows == 600


def test_the_legend_says_what_is_dark_and_what_is_light():
    nan = float("nan")
    state = IncompleteStatistics().update([[1.0, 2.0], [3.0, nan]], ["a", "b"])
    display = MissingPatternsDisplay.from_statistics(state)
    legend = display.ax_.get_legend()
    shown = {
        text.get_text(): patch.get_facecolor()
        for text, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)
    }
    pixels = display.image_.to_rgba(display.image_.get_array())
    observed = state.patterns().observed
    by_meaning = {"observed": pixels[observed][0], "missing": pixels[~observed][0]}
    assert shown.keys() == by_meaning.keys()
    for meaning, colour in shown.items():
        np.testing.assert_allclose(colour, by_meaning[meaning])
