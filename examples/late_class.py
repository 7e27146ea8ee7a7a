"""A stream in which a class appears late: wines of a third grower, after those of two.

Each batch is first predicted, then learnt. Rows of a grower that the model has never seen cannot be
classified, but they can be recognised: no class explains them (`p_values`). One batch later they are a class
like the others. No class is announced beforehand, and nothing is fitted again.

Run as ``python late_class.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_wine

from streamgda import LinearDiscriminantAnalysis

FIRST, BATCH = 60, 20
LATE = "grower C"


def stream() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of wines; those of the third grower come in the second half only."""
    X, y = load_wine(return_X_y=True)
    growers = np.array(["grower A", "grower B", LATE])[y]
    order = np.random.default_rng(0).permutation(len(y))
    X, growers = X[order], growers[order]
    early = np.flatnonzero(growers != LATE)[:100]
    rest = np.setdiff1d(np.arange(len(y)), early)
    order = np.concatenate([early, rest])
    for batch in np.split(order, range(FIRST, len(order), BATCH)):
        yield X[batch], growers[batch]


def main() -> None:
    """Predict, then learn, batch by batch."""
    model = LinearDiscriminantAnalysis()
    print("wines  of them late  right  unlike any class  classes known")
    for X, growers in stream():
        is_late = growers == LATE
        line = f"{len(X):>5} {is_late.sum():>13}"
        if hasattr(model, "statistics_"):
            right = (model.predict(X) == growers).mean()
            unlike = (model.p_values(X).max(axis=1) < 0.001).sum()
            line += f" {right:>6.0%} {unlike:>17} {len(model.classes_):>14}"
        print(line)
        model.partial_fit(X, growers)


if __name__ == "__main__":
    main()
