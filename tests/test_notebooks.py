"""What notebooks show of sources, states, evaluations, ledgers and reports."""

import pandas as pd
import pytest

from streamgda import (
    ClassStatistics,
    GaussianNB,
    StatisticsLedger,
    WindowedStatistics,
    drift,
    evaluate,
    scan_arrow,
    scan_parquet,
)
from streamgda.diagnostics import manova

ROWS = pd.DataFrame(
    {"<script>": [1.0, 2.0, 4.0, 7.0], "colour": list("rgrb"), "kind": ["a<b", "a<b", "c", "c"]}
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    ROWS.to_parquet(folder / "<day>.parquet")
    source = scan_parquet(folder, "kind", features=["<script>"])
    ledger = StatisticsLedger(tmp_path_factory.mktemp("ledger") / "ledger")
    report = ledger.refresh(source)
    state = ClassStatistics().update(ROWS[["<script>"]], ROWS["kind"])
    window = WindowedStatistics(2)
    window.update(ROWS[["<script>"]], ROWS["kind"])
    return {
        "source": scan_arrow(ROWS, "kind", categories="auto"),
        "files": source,
        "state": state,
        "window": window,
        "ledger": ledger,
        "refresh": report,
        "drift": drift(state, state),
        "evaluation": evaluate(
            GaussianNB().fit(ROWS[["<script>"]], ROWS["kind"]), ROWS[["<script>"]], ROWS["kind"]
        ),
        "diagnostic": manova(state),
    }


def test_all_is_text_or_tables_without_scripts(shown):
    for thing in shown.values():
        html = thing._repr_html_()
        assert html.startswith("<pre>")
        assert "script>" not in html.replace("&lt;script&gt;", "")
        assert "a<b" not in html
        assert len(html) < 5000


def test_what_a_thing_is_and_holds_is_there(shown):
    html = {name: thing._repr_html_() for name, thing in shown.items()}
    assert all(kind in html["source"] for kind in ("&lt;script&gt;", "number", "colour", "categories"))
    assert all(word in html["state"] for word in ("features=1, rows=4", "a&lt;b", "weight"))
    assert "batches=1" in html["window"]
    assert "features=1, rows=4" in html["window"]
    assert "&lt;day&gt;.parquet" in html["ledger"]
    assert "read 1 file" in html["refresh"]
    assert all(word in html["evaluation"] for word in ("accuracy", "a&lt;b", "roc_auc"))


def test_a_long_table_is_cut():
    labels = [f"class {k:04}" for k in range(1000)]
    html = ClassStatistics().update([[float(k)] for k in range(1000)], labels)._repr_html_()
    assert "class 0000" in html
    assert "class 0500" not in html
