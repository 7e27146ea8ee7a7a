"""Independent computations to compare with: straight from the definitions, in fractions or by SciPy."""

from fractions import Fraction

import numpy as np
from scipy.stats import multivariate_normal

from streamgda import GaussianNB, LinearDiscriminantAnalysis


def exact_moments(X, y, weights=None):
    """Class -> (weight, mean, scatter matrix) as Fractions, of the values as they are."""
    weights = [Fraction(1)] * len(y) if weights is None else [Fraction(float(w)) for w in weights]
    rows = [[Fraction(value.item()) for value in row] for row in np.asarray(X)]
    moments = {}
    for label in sorted(set(y)):
        members = [(w, row) for w, row, other in zip(weights, rows, y, strict=True) if other == label and w]
        if members:
            moments[label] = _moments(members)
    return moments


def _moments(members):
    total = sum(w for w, _ in members)
    n_features = len(members[0][1])
    mean = [sum(w * row[j] for w, row in members) / total for j in range(n_features)]
    scatter = [
        [sum(w * (row[i] - mean[i]) * (row[j] - mean[j]) for w, row in members) for j in range(n_features)]
        for i in range(n_features)
    ]
    return total, mean, scatter


def exact_scatter(moments, covariance_type):
    """The scatter in the shape of a covariance type, each entry rounded once."""
    full = [scatter for _, _, scatter in moments.values()]
    if covariance_type == "tied":
        return _rounded(
            [[sum(entries) for entries in zip(*rows, strict=True)] for rows in zip(*full, strict=True)]
        )
    if covariance_type == "diag":
        return _rounded([[scatter[j][j] for j in range(len(scatter))] for scatter in full])
    return _rounded(full)


def exact_means(moments):
    """Means, each rounded once."""
    return _rounded([mean for _, mean, _ in moments.values()])


def _rounded(nested):
    return np.array(nested, dtype=object).astype(np.float64)


def covariances_of(model):
    """The covariance of each class, as the attributes of a model have it."""
    if hasattr(model, "var_"):
        return np.array([np.diag(variances) for variances in model.var_])
    covariances = np.asarray(model.covariance_)
    return np.broadcast_to(covariances, (len(model.classes_), *covariances.shape[-2:]))


def gaussians_of(model, X, y):
    """Means and covariances of equally large classes as NumPy works them out, of the form of a model."""
    classes = [X[y == label] for label in np.unique(y)]
    covariances = np.array([np.cov(own.T, bias=True) for own in classes])
    if isinstance(model, LinearDiscriminantAnalysis):
        covariances[:] = covariances.mean(axis=0)
    if isinstance(model, GaussianNB):
        covariances = (covariances + model.epsilon_) * np.eye(X.shape[1])
    return np.array([own.mean(axis=0) for own in classes]), covariances


def log_joint(X, means, covariances, priors):
    """Ln p(x, k) of each row and class, by SciPy's densities."""
    pairs = zip(means, covariances, strict=True)
    return np.column_stack([multivariate_normal(*pair).logpdf(X) for pair in pairs]) + np.log(priors)


def close(actual, expected, kind, X, rtol):
    """Whether scatters agree to rtol on the scale of their features.

    The scale of a feature is its spread or, where it does not vary, what rounding makes of its values.
    """
    roots = np.sqrt(expected if kind == "diag" else np.einsum("...ii->...i", expected))
    roots = roots + np.sqrt(len(X)) * np.finfo(np.float64).eps * np.abs(X).max(axis=0)
    scale = roots**2 if kind == "diag" else roots[..., :, None] * roots[..., None, :]
    return bool((np.abs(actual - expected) <= rtol * scale).all())
