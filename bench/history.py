"""Draw what `bench.fit` measured of each release and of main, and keep the measurements of a release.

``python -m bench.history`` draws releases/fit.png, and ``python -m bench.history 0.3.0`` writes first what is
in RESULTS.md into releases/0.3.0.json. Machines differ, so the picture has ratios within a run: the time of a
pass to that of reading the files and multiplying their blocks alone.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from bench.report import RESULTS

RELEASES = Path(__file__).with_name("releases")
BARE = ("pyarrow: scan, read as streamgda reads", "NumPy: one product per class and block")


def measurements(results: str) -> dict[str, Any]:
    """The medians of `bench.fit` in seconds, and on what they were measured."""
    section = results.partition("<!-- fit -->")[2].partition("<!-- end of fit -->")[0]
    medians = dict(re.findall(r"^\| (\w[^|]*: [^|]+?) +\| +([\d.]+) \|", section, re.MULTILINE))
    return {
        "run": section.splitlines()[1].removeprefix("## bench."),
        "machine": section.strip().splitlines()[-1],
        "median seconds": {name: float(seconds) for name, seconds in medians.items()},
    }


def draw(releases: dict[str, dict[str, float]]) -> None:
    """Draw the time of each pass over Parquet, in units of what it cannot do without."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for kind in ("full", "tied", "diag"):
        name = f"streamgda: {kind} statistics, from Parquet"
        ratios = [medians[name] / sum(map(medians.__getitem__, BARE)) for medians in releases.values()]
        axes.plot(list(releases), ratios, marker="o", label=kind)
    axes.set(title="one pass over Parquet ÷ (reading + one product a block)", ylim=(0, None))
    axes.legend()
    figure.savefig(RELEASES / "fit.png", dpi=80)


def main(*new: str) -> None:
    """Keep the measurements of a new release, if one is named, and draw those of all."""
    now = measurements(RESULTS.read_text())
    for version in new:
        kept = json.dumps(now, indent=1, ensure_ascii=False)
        (RELEASES / f"{version}.json").write_text(kept + "\n")
    files = sorted(RELEASES.glob("*.json"), key=lambda file: [int(part) for part in file.stem.split(".")])
    all_runs = {file.stem: json.loads(file.read_text()) for file in files} | {"main": now}
    draw({name: run["median seconds"] for name, run in all_runs.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
