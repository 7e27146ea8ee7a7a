"""Classify patches of 3 × 3 pixels by the photograph they come from: half a million rows, out of core.

Every patch of the two photographs that come with scikit-learn is a row of 27 numbers: red, green and blue
of nine pixels. The rows are written to Parquet. One pass over the files gives the statistics, and all three
models are made from them. They are evaluated on the right-hand quarter of each photograph, which they have
not seen.

Run as ``python quickstart.py [folder]``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_sample_image

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    accumulate,
    scan_parquet,
)

PHOTOGRAPHS = ("china", "flower")
SIDE = 3
NAMES = [f"{colour}{row}{column}" for row in range(SIDE) for column in range(SIDE) for colour in "rgb"]


def patches(pixels: np.ndarray) -> np.ndarray:
    """Every patch of an image of shape (height, width, 3), as a row of pixel values."""
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (SIDE, SIDE), axis=(0, 1))
    return windows.transpose(0, 1, 3, 4, 2).reshape(-1, len(NAMES))


def write_photographs(folder: Path) -> None:
    """Write the patches strip by strip: the left three quarters to train/, the right quarter to test/."""
    for name in PHOTOGRAPHS:
        pixels = load_sample_image(f"{name}.jpg")
        border = pixels.shape[1] * 3 // 4
        for part, half in (("train", pixels[:, :border]), ("test", pixels[:, border:])):
            (folder / part).mkdir(exist_ok=True)
            for number, strip in strips(half):
                frame = pd.DataFrame(patches(strip), columns=NAMES).assign(photograph=name)
                frame.to_parquet(folder / part / f"{name}-{number}.parquet", index=False)


def strips(pixels: np.ndarray, height: int = 100) -> Iterator[tuple[int, np.ndarray]]:
    """Horizontal strips that overlap by a patch, so that no patch is lost."""
    for number, top in enumerate(range(0, len(pixels) - SIDE + 1, height)):
        yield number, pixels[top : top + height + SIDE - 1]


def main(folder: Path) -> None:
    """Write the files, read them once, make the models, evaluate them."""
    write_photographs(folder)
    start = time.perf_counter()
    statistics = accumulate(scan_parquet(folder / "train", "photograph"), progress=True)
    seconds = time.perf_counter() - start
    print(f"{statistics.n_rows:,} rows of {statistics.n_features} features read in {seconds:.2f} s; ", end="")
    print(", ".join(f"{n:,} {name}" for name, n in zip(statistics.classes, statistics.counts, strict=True)))
    test = pd.read_parquet(folder / "test")
    photograph = test.pop("photograph")
    print(f"\naccuracy on {len(test):,} patches not seen before:")
    for model in (QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis, GaussianNB):
        score = model.from_statistics(statistics).score(test, photograph)
        print(f"  {model.__name__:<30} {score:.1%}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
