"""A job on a Dask cluster: fit Parquet files, evaluate the model on files held out, score all of them.

The workers read the files and write the scores. Only statistics, evaluations and summaries come back. This
example starts a cluster of two processes on this machine. A job in production connects to a cluster that
runs already, and its files lie where all workers can reach them: "s3://bucket/catch" instead of a folder.

Run as ``python cluster_scoring.py [folder]``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

from streamgda import QuadraticDiscriminantAnalysis, evaluate, predict_dataset, scan_parquet

FILES, ROWS, FEATURES = 10, 50_000, ["weight", "length", "width", "age"]
KINDS = np.array(["cod", "herring", "plaice", "turbot"])


def write_catch(folder: Path) -> None:
    """Write ten days of fish: for each fish an id, four measures and its kind."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(len(KINDS), len(FEATURES)))
    spreads = rng.normal(size=(len(KINDS), len(FEATURES), len(FEATURES)))
    folder.mkdir()
    for day in range(FILES):
        kind = rng.integers(len(KINDS), size=ROWS)
        noise = spreads[kind] @ rng.normal(size=(ROWS, len(FEATURES), 1))
        measures = dict(zip(FEATURES, (centres[kind] + noise[..., 0]).T, strict=True))
        ids = day * ROWS + np.arange(ROWS)
        pq.write_table(pa.table({"id": ids, **measures, "kind": KINDS[kind]}), folder / f"day-{day}.parquet")


def main(folder: Path, client: Client) -> None:
    """Fit, evaluate, score all files, and show some scores."""
    catch = folder / "catch"
    days = sorted(map(str, catch.iterdir()))
    learn = scan_parquet(days[:-2], "kind", features=FEATURES)
    held_out = scan_parquet(days[-2:], "kind", features=FEATURES)
    everything = scan_parquet(catch, "kind", features=FEATURES)

    model = QuadraticDiscriminantAnalysis().fit(learn)  # on the client, since one is active
    workers = len(client.scheduler_info()["workers"])
    rows, kinds = model.statistics_.n_rows, len(model.classes_)
    print(f"{rows} rows learnt, of {kinds} classes, by {workers} worker processes")
    print(f"accuracy on the two days held out: {evaluate(model, held_out, scheduler=client).accuracy:.1%}")

    # If this is interrupted, run it again: the parts that are written are kept.
    options = {"columns": ["label", "log_density"], "keep": ["id"], "scheduler": client}
    print(predict_dataset(model, everything, folder / "scored", **options))
    scored = pq.read_table(folder / "scored")
    print(scored.slice(0, 3).to_pandas().round(3).to_string(index=False))
    in_order = (scored["id"].to_numpy() == np.arange(FILES * ROWS)).all()
    print(f"rows in the order of the input: {in_order}")


def on_a_cluster(folder: Path) -> None:
    """Start a cluster and run the job on it."""
    write_catch(folder / "catch")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,  # in production Client("tcp://scheduler:8786"), and no LocalCluster
    ):
        main(folder, client)


if __name__ == "__main__":  # worker processes import this script
    if len(sys.argv) > 1:
        on_a_cluster(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            on_a_cluster(Path(temporary))
