"""`Marginal`: how rows in which features are missing are learnt, as one value that all hand on."""

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    Marginal,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsLedger,
    StatisticsSearchCV,
    accumulate,
    from_bytes,
    scan_arrow,
    scan_parquet,
)
from streamgda.cli.main import main
from tests.extensions.incomplete.test_learning_incomplete_rows import folder, holed

__all__ = ["folder"]  # a fixture

MODELS = [
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    GaussianDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
]


@pytest.mark.slow_cases("Mixture", "GaussianDisc")
@pytest.mark.parametrize("model", MODELS)
def test_the_word_stands_for_its_defaults(model):
    X, y = holed(800)
    by_word, by_option = (model(missing=missing).fit(X, y) for missing in ("marginal", Marginal()))
    assert by_word.statistics_ == by_option.statistics_
    assert by_word.predict_proba(X).tolist() == by_option.predict_proba(X).tolist()


@pytest.mark.slow_cases("Discriminant")
@pytest.mark.parametrize("model", MODELS)
def test_a_model_holds_it_when_copied_saved_and_searched(model):
    X, y = holed(800)
    fitted = model(missing=Marginal(max_patterns=64)).fit(X, y)
    assert "missing=Marginal(max_patterns=64)" in repr(fitted)
    assert clone(fitted).missing == fitted.missing
    assert fitted.get_params()["missing__max_patterns"] == 64
    loaded = from_bytes(fitted.to_bytes())
    assert loaded.missing == Marginal(max_patterns=64)
    assert loaded.predict(X).tolist() == fitted.predict(X).tolist()
    assert clone(fitted).set_params(missing__max_reads=3).missing == Marginal(max_patterns=64, max_reads=3)
    grid = {"missing__max_reads": [1, 2]}
    assert GridSearchCV(clone(fitted), grid, cv=2).fit(X, y).best_params_["missing__max_reads"] in {1, 2}
    found = StatisticsSearchCV(clone(fitted), {"missing__max_patterns": [32, 128]}).fit(X, y)
    assert found.best_estimator_.missing in {Marginal(max_patterns=32), Marginal(max_patterns=128)}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"max_patterns": 0}, "max_patterns must be a whole number, at least 1; got 0"),
        ({"max_reads": 1.5}, "max_reads must be a whole number, at least 1; got 1.5"),
        ({"tol": -1.0}, "tol must be a number, at least 0; got -1.0"),
        ({"tol": np.nan}, "tol must be a number, at least 0; got nan"),
    ],
)
def test_values_that_make_no_sense_are_refused(params, said):
    with pytest.raises(ValueError, match=f"^{said}$"):
        Marginal(**params)
    with pytest.raises(ValueError, match=f"^{said}$"):
        QuadraticDiscriminantAnalysis(missing="marginal").set_params(
            **{f"missing__{name}": value for name, value in params.items()}
        )


def test_sources_take_the_word_of_models(folder):
    with pytest.raises(ValueError, match="^missing='keep' is now missing='marginal', as for models$"):
        scan_parquet(folder, "y", missing="keep")
    with pytest.raises(ValueError, match="^missing must be 'raise' or 'drop' or 'marginal'; got 'median'$"):
        scan_parquet(folder, "y", missing="median")


def test_what_accumulate_is_asked_for_counts_for_more_than_what_the_source_says(folder):
    plain, marginal = scan_parquet(folder, "y"), scan_parquet(folder, "y", missing="marginal")
    assert accumulate(plain, missing="marginal") == accumulate(marginal)
    with pytest.raises(ValueError, match="is NaN or null"):
        accumulate(marginal, missing="raise")
    complete = scan_arrow(pa.table({"x": [1.0, 2.0, 4.0], "y": [0, 0, 1]}), "y", missing="marginal")
    assert isinstance(accumulate(complete), IncompleteStatistics)
    assert accumulate(complete, missing=Marginal(max_reads=1)) == accumulate(complete, missing="raise")


def test_a_ledger_keeps_as_many_patterns_as_it_is_asked_for(folder, tmp_path):
    source = scan_parquet(folder, "y", missing="marginal")
    with pytest.raises(ValueError, match=r"max_patterns=3 are kept"):
        StatisticsLedger(tmp_path / "few", missing=Marginal(max_patterns=3)).refresh(source)
    ledger = StatisticsLedger(tmp_path / "many", missing=Marginal(max_patterns=16))
    ledger.refresh(scan_parquet(folder, "y"))
    assert ledger.statistics().n_rows == 600


def test_the_command_line_keeps_as_many_patterns_of_files_as_it_is_asked_for(folder, tmp_path):
    arguments = ["refresh", str(tmp_path / "ledger"), str(folder), "--target", "y", "--missing"]
    few = CliRunner().invoke(main, [*arguments, "marginal max_patterns=3"])
    assert "max_patterns=3 are kept" in few.stderr
    assert CliRunner().invoke(main, [*arguments, "marginal"]).exit_code == 0


def test_rows_whose_classes_are_divided_are_read_once():
    X, y = holed(400)
    model = MixtureDiscriminantAnalysis(missing=Marginal(max_patterns=2))
    with pytest.raises(ValueError, match="max_patterns=2 are kept"):
        model.fit(X, y)


@pytest.mark.parametrize("n_rows", [40, 100_000])  # one block, or several
@pytest.mark.parametrize("is_source", [False, True])
@pytest.mark.parametrize("share", [0, 0.2])
def test_a_model_that_may_keep_more_patterns_than_before_learns_them(n_rows, is_source, share):
    rng = np.random.default_rng(0)
    few, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    few[np.arange(40), np.arange(40) // 2 % 2] = np.nan  # either the first or the second feature
    many, labels = rng.normal(size=(n_rows, 3)), np.arange(n_rows) % 2
    many[rng.random(many.shape) < share] = np.nan
    columns = {name: pa.array(many[:, j], from_pandas=True) for j, name in enumerate("abc")}
    source = scan_arrow(pa.table({**columns, "y": labels}), "y", missing="marginal")
    batch = (source,) if is_source else (many, labels)
    model = QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=2)).partial_fit(few, y)
    before = model.statistics_.digest()
    with pytest.raises(ValueError, match="Raise max_patterns"):
        model.partial_fit(*batch)
    model.set_params(missing__max_patterns=64)
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.full((2, 3), np.inf), [0, 1])
    assert model.statistics_.digest() == before
    model.partial_fit(*batch)
    expected = QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=64)).partial_fit(few, y)
    assert model.statistics_.digest() == expected.partial_fit(*batch).statistics_.digest()
