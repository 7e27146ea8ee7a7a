"""Sums by class in NumPy alone: the loops in C are compared with it."""

import numpy as np


def centred(X, y, weights=None):
    """The classes, their weights and means, and the rows less the means: gathered, then tile by tile."""
    order = np.argsort(y, kind="stable")
    rows = np.asarray(X, np.float64)[order].T.copy()
    classes, starts, counts = np.unique(np.asarray(y)[order], return_index=True, return_counts=True)
    weights = np.ones(len(order)) if weights is None else np.asarray(weights, np.float64)[order]
    totals = np.add.reduceat(weights, starts)
    first = rows[:, starts]
    rows -= np.repeat(first, counts, axis=1)
    shift = np.add.reduceat(rows * weights, starts, axis=1) / totals
    rows -= np.repeat(shift, counts, axis=1)
    rest = np.add.reduceat(rows * weights, starts, axis=1) / totals
    return classes, totals, (first + (shift + rest)).T, rows * np.sqrt(weights), starts


def moments(kind, X, y, weights=None):
    """The classes, their weights, means and scatter."""
    classes, totals, means, rows, starts = centred(X, y, weights)
    if kind == "diag":
        return classes, totals, means, np.add.reduceat(rows * rows, starts, axis=1).T
    parts = [part @ part.T for part in np.split(rows, starts[1:], axis=1)]
    return classes, totals, means, np.array(parts) if kind == "full" else sum(parts)


def anchored(X, y):
    """The same of "diag", by sums about the first row of each class."""
    X, (classes, first, codes, counts) = np.asarray(X, np.float64), np.unique(y, True, True, True)
    deviations = X - X[first][codes]
    sums, squares = np.zeros((2, len(classes), X.shape[1]))
    np.add.at(sums, codes, deviations)
    np.add.at(squares, codes, deviations**2)
    shift = sums / counts[:, None]
    return classes, counts, X[first] + shift, squares - sums * shift
