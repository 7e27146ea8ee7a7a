"""Ledgers that keep the statistics of folds, file by file."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_wine

from streamgda import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsLedger,
    StatisticsSearchCV,
    accumulate,
    load,
    scan_parquet,
)
from streamgda.statistics.required import Required
from tests.folds import read_folds


@pytest.fixture
def folder(tmp_path):
    """Three days of wines."""
    frame = load_wine(as_frame=True).frame.assign(cask=lambda f: np.arange(len(f)) % 60)
    for day in range(3):
        frame[day::3].to_parquet(tmp_path / f"{day}.parquet", index=False)
    return tmp_path


def wines(folder):
    return scan_parquet(folder, "target", exclude=["cask"])


@pytest.mark.slow_cases("tied", "fourth")
@pytest.mark.parametrize(
    "kept", [{}, {"covariance_type": "tied"}, {"exact": True}, {"fourth_moments": True}], ids=str
)
def test_a_ledger_has_the_folds_of_a_pass(folder, kept):
    ledger = StatisticsLedger(folder / "_ledger", **kept, folds=4)
    ledger.refresh(wines(folder))
    expected = read_folds(wines(folder), 4, required=Required(**kept))
    again = StatisticsLedger(folder / "_ledger", **kept, folds=4).fold_statistics()
    assert again.n_rows == 178
    for fold in range(4):
        assert again[fold].allclose(expected[fold])
    assert ledger.statistics().allclose(accumulate(wines(folder), **kept))
    if kept.get("exact"):
        assert again == expected


@pytest.mark.parametrize("exact", [False, True])
def test_the_statistics_of_all_folds_are_loaded(folder, exact):
    ledger = StatisticsLedger(folder / "_ledger", folds=3, exact=exact)
    ledger.refresh(scan_parquet(folder, "target", missing="drop"))
    assert load(folder / "_ledger" / "ledger.parquet") == ledger.statistics()


def test_rows_that_were_dropped_are_counted_beside_folds(folder):
    frame = pd.read_parquet(folder / "0.parquet")
    frame.assign(alcohol=frame["alcohol"].mask(frame.index < 9)).to_parquet(folder / "0.parquet", index=False)
    source = scan_parquet(folder, "target", exclude=["cask"], missing="drop")
    ledger = StatisticsLedger(folder / "_ledger", folds=4)
    ledger.refresh(source)
    assert ledger.statistics().n_dropped == accumulate(source).n_dropped == 9


def test_a_nightly_search_reads_what_is_new(folder):
    (folder / "2.parquet").rename(folder / "2.later")
    ledger = StatisticsLedger(folder / "_ledger", folds=5)
    ledger.refresh(wines(folder))
    before = ledger.fold_statistics()
    (folder / "2.later").rename(folder / "2.parquet")
    report = ledger.refresh(wines(folder))
    assert report.added == ("2.parquet",)
    assert [entry.label for entry in report.drift] == [0, 1, 2]
    new = read_folds(scan_parquet(folder / "2.parquet", "target", exclude=["cask"]), 5)
    after = ledger.fold_statistics()
    assert all(after[fold].allclose((before + new)[fold]) for fold in range(5))  # old rows kept their folds
    grid = {"reg_param": [0.001, 0.01, 0.1]}
    nightly = StatisticsSearchCV(QuadraticDiscriminantAnalysis(), grid).fit(after)
    direct = StatisticsSearchCV(QuadraticDiscriminantAnalysis(), grid).fit(wines(folder))
    assert (nightly.n_reads_, direct.n_reads_) == (0, 1)
    np.testing.assert_allclose(
        nightly.cv_results_["mean_test_score"], direct.cv_results_["mean_test_score"], rtol=1e-10
    )


def test_entries_of_folds_are_chosen_and_weighted(folder):
    ledger = StatisticsLedger(folder / "_ledger", folds=3)
    ledger.refresh(wines(folder))
    whole = ledger.fold_statistics()
    assert ledger.fold_statistics({f"{n}.parquet": 0.5 for n in range(3)}).n_rows == whole.n_rows
    assert ledger.fold_statistics({"0.parquet": 1}).n_rows == 60


def test_groups_share_a_fold_in_a_ledger(folder):
    ledger = StatisticsLedger(folder / "_ledger", "tied", folds=5, groups="cask")
    ledger.refresh(wines(folder))
    expected = read_folds(wines(folder).with_groups("cask"), 5, "cask", Required("tied"))
    assert all(ledger.fold_statistics()[fold].allclose(expected[fold]) for fold in range(5))
    StatisticsSearchCV(LinearDiscriminantAnalysis(), {"shrinkage": [0.1]}).fit(ledger.fold_statistics())


def test_a_ledger_keeps_its_number_of_folds(folder):
    StatisticsLedger(folder / "_ledger", folds=3).refresh(wines(folder))
    for other in (None, 4):
        with pytest.raises(ValueError, match="folds"):
            StatisticsLedger(folder / "_ledger", folds=other).refresh(wines(folder))
        with pytest.raises(ValueError, match="with folds=3, and here it is folds="):
            StatisticsLedger(folder / "_ledger", folds=other).statistics()
    with pytest.raises(ValueError, match="folds must be a whole number, at least 2; got 1"):
        StatisticsLedger(folder / "_other", folds=1)
    StatisticsLedger(folder / "_other").refresh(wines(folder))
    with pytest.raises(ValueError, match="keeps no folds"):
        StatisticsLedger(folder / "_other").fold_statistics()


def test_scores_of_rows_need_the_rows(folder):
    ledger = StatisticsLedger(folder / "_ledger", folds=3)
    ledger.refresh(wines(folder))
    search = StatisticsSearchCV(QuadraticDiscriminantAnalysis(), {"reg_param": [0.1]}, scoring="accuracy")
    with pytest.raises(ValueError, match="needs the rows, and there are only statistics"):
        search.fit(ledger.fold_statistics())


@pytest.mark.slow_cases("document-[]", "fold-3", "fold-1")
@pytest.mark.parametrize(
    ("column", "value"),
    [("document", "a"), ("document", "[]"), ("table", b"a"), ("fold", None), ("fold", 3), ("fold", 1)],
)
def test_an_entry_that_was_edited_is_named(folder, column, value):
    ledger = StatisticsLedger(folder / "_ledger", folds=3)
    ledger.refresh(wines(folder))
    entry = next((folder / "_ledger" / "entries").iterdir())
    table = pq.read_table(entry)
    position = table.column_names.index(column)
    edited = pa.array([value, *table[column].to_pylist()[1:]], table.schema.field(column).type)
    pq.write_table(table.set_column(position, column, edited), entry)
    with pytest.raises(ValueError, match=f"{entry.name} (holds (no statistics of )?folds|is damaged)"):
        ledger.fold_statistics(dict.fromkeys(ledger.files["path"].to_pylist(), 1))
