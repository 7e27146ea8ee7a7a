"""Forget one user of many: the result has the same bits as a fit that never saw the user.

Measurements of many users come in chunks of any size and in any order. One user asks to be forgotten. The
statistics of that user are subtracted; no other row is read again.

Run as ``python exact_forgetting.py``.
"""

import numpy as np

from streamgda import ExactClassStatistics, QuadraticDiscriminantAnalysis

N_ROWS, N_FEATURES, N_USERS, FORGOTTEN = 200_000, 8, 1_000, 42


def measurements() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in mixed units, the class of each row, and the user of each row."""
    rng = np.random.default_rng(0)
    activity = rng.choice(["rest", "walk", "run"], size=N_ROWS)
    speed = np.select([activity == "rest", activity == "walk"], [0.0, 1.4], 3.2)[:, None]
    units = 10.0 ** np.arange(-4, 4)
    return (
        (speed + rng.normal(size=(N_ROWS, N_FEATURES))) * units,
        activity,
        rng.integers(N_USERS, size=N_ROWS),
    )


def learn(rows: np.ndarray, labels: np.ndarray, chunks: int) -> ExactClassStatistics:
    """The exact statistics of the rows, accumulated in a number of chunks."""
    parts = zip(np.array_split(rows, chunks), np.array_split(labels, chunks), strict=True)
    return sum(ExactClassStatistics().update(*part) for part in parts)


def main() -> None:
    """Accumulate, forget, compare."""
    rows, activity, user = measurements()
    others = user != FORGOTTEN
    shuffled = np.random.default_rng(1).permutation(np.flatnonzero(others))
    never_seen = learn(rows[others], activity[others], chunks=1)
    print(f"without user {FORGOTTEN}, in one chunk:         sha256 {never_seen.digest()}")
    again = learn(rows[shuffled], activity[shuffled], chunks=97)
    print(f"the same rows, shuffled, 97 chunks: sha256 {again.digest()}")

    everyone = learn(rows, activity, chunks=10)
    print(f"with user {FORGOTTEN}:                       sha256 {everyone.digest()}")
    forgotten = everyone - learn(rows[~others], activity[~others], chunks=1)
    print(f"user {FORGOTTEN} forgotten:                  sha256 {forgotten.digest()}")

    model = QuadraticDiscriminantAnalysis.from_statistics(forgotten)
    ideal = QuadraticDiscriminantAnalysis(exact=True).fit(rows[others], activity[others])
    same = np.array_equal(model.predict_proba(rows), ideal.predict_proba(rows))
    print(
        f"{(~others).sum()} rows of {N_ROWS:,} forgotten without reading the others; the same model: {same}"
    )


if __name__ == "__main__":
    main()
