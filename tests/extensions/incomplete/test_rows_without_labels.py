"""Rows without a label, beside rows in which features are missing."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import GaussianNB, StatisticsLedger, accumulate, evaluate, scan, scan_arrow, scan_dask
from tests.strategies import MODELS

nan = float("nan")


def rows(seed=0):
    """A frame of two classes, in which features and labels are missing, and the rows that have a label."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    frame["y"] = pd.Series(np.where(rng.random(60) < 0.5, "no", "yes"), dtype=object)
    frame.loc[[3, 7, 59], "y"] = None
    return frame, frame.dropna(subset="y")


def sources(frame, folder):
    pq.write_table(pa.Table.from_pandas(frame), folder / "rows.parquet")
    yield scan(folder, "y", missing="marginal")
    yield scan_arrow(frame, "y", missing="marginal")
    yield scan_dask(dd.from_pandas(frame, npartitions=2), "y", missing="marginal")


@pytest.mark.parametrize("kind", MODELS)
def test_they_are_left_out_and_counted_wherever_they_come_from(kind, tmp_path):
    frame, labelled = rows()
    X, names = frame[["a", "b", "c"]], ["a", "b", "c"]
    expected = kind(missing="marginal").fit(labelled[names], labelled["y"])
    streamed = kind(missing="marginal").partial_fit(X[:20], frame["y"][:20])
    models = [
        kind(missing="marginal").fit(X, frame["y"]),
        streamed.partial_fit(X[20:], frame["y"][20:]),
        kind(missing="marginal").fit(dd.from_pandas(frame, npartitions=2)[[*names, "y"]], "y"),
        *(kind(missing="marginal").fit(source) for source in sources(frame, tmp_path)),
    ]
    for model in models:
        assert model.statistics_.n_dropped == 3
        np.testing.assert_allclose(model.means_, expected.means_, rtol=1e-10)
        np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-8)
    judged = evaluate(expected, X, frame["y"])
    assert (judged.n_dropped, judged.n_rows, judged.accuracy) == (3, 57, expected.score(*_split(labelled)))


def _split(frame):
    return frame[["a", "b", "c"]], frame["y"]


def test_progress_and_reports_say_how_many(tmp_path, capsys):
    frame, _ = rows()
    for source in sources(frame, tmp_path):
        reports = []
        accumulate(source, progress=reports.append)
        assert reports[-1].dropped == 3
        accumulate(source, progress=True)
        assert "3 dropped" in capsys.readouterr().err
    ledger = StatisticsLedger(tmp_path / "ledger")
    report = ledger.refresh(scan(tmp_path / "rows.parquet", "y", missing="marginal"))
    assert (report.rows, report.rows_dropped) == (57, 3)
    assert "57 rows read (3 dropped), 57 held" in str(report)
    assert ledger.refresh(tmp_path / "rows.parquet").rows_dropped == 0


def test_without_marginal_the_row_and_both_remedies_are_named(tmp_path):
    frame, _ = rows()
    pq.write_table(pa.Table.from_pandas(frame.fillna({"a": 0, "b": 0, "c": 0})), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"rows\.parquet.*row 3 has no label.*missing='drop', or 'marginal'"):
        accumulate(scan(tmp_path, "y"))
    with pytest.raises(ValueError, match=r"row 3 has no label.*missing='drop'"):
        GaussianNB().fit(frame[["a", "b", "c"]].fillna(0), frame["y"])


def test_a_missing_weight_is_still_an_error():
    frame, _ = rows()
    weights = np.r_[nan, np.ones(59)]
    with pytest.raises(ValueError, match="row 0 has weight nan"):
        GaussianNB(missing="marginal").fit(frame[["a", "b", "c"]], frame["y"], weights)
