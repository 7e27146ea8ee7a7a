"""A model that is refreshed each night: it reads new files, drops expired ones, and reports what changed.

Every night the scales of a shop write a file of the fruit that they have weighed and measured. Files are kept
for three nights. On the third night a new kind of fruit arrives, and the scales begin to read too high.

Run as ``python nightly_refresh.py [folder]``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import streamgda
from streamgda import LinearDiscriminantAnalysis, StatisticsLedger, scan_parquet

FRUIT = {"apple": (150.0, 7.0), "lemon": (110.0, 5.5), "melon": (900.0, 16.0)}
RNG = np.random.default_rng(0)


def weigh(folder: Path, night: int) -> None:
    """Write the file of one night."""
    kinds = list(FRUIT)[: 2 if night < 3 else 3]
    kind = RNG.choice(kinds, size=2_000)
    mass, width = np.array([FRUIT[name] for name in kind]).T
    error = 15.0 if night >= 3 else 0.0
    columns = {
        "mass": mass * RNG.normal(1.0, 0.1, len(kind)) + error,
        "width": width * RNG.normal(1.0, 0.05, len(kind)),
        "kind": kind,
    }
    pq.write_table(pa.table(columns), folder / f"night-{night}.parquet")


def refresh(folder: Path) -> None:
    """Refresh the ledger, print the report, and save the model: the job of each night."""
    ledger = StatisticsLedger(folder / "ledger", "tied")
    report = ledger.refresh(scan_parquet(folder / "fruit", "kind"))
    print(report)
    model = LinearDiscriminantAnalysis.from_statistics(ledger.statistics())
    model.save(folder / "model.parquet")


def main(folder: Path) -> None:
    """Run four nights, then use the model."""
    (folder / "fruit").mkdir()
    for night in range(1, 5):
        weigh(folder / "fruit", night)
        (folder / "fruit" / f"night-{night - 3}.parquet").unlink(missing_ok=True)
        print(f"\nnight {night}")
        refresh(folder)
    model = streamgda.load(folder / "model.parquet")
    fruit = pd.DataFrame({"mass": [700.0], "width": [14.0]})
    print("\na fruit of 700 g and 14 cm is a", model.predict(fruit)[0])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
