"""The fourteen covariance models of Celeux & Govaert, fitted to the scatter of each class.

The covariance of a class is Σ_k = λ_k D_k A_k D_kᵀ: its volume λ_k, its shape A_k (diagonal, of determinant
1) and its orientation D_k (orthogonal). A model is named by three letters, for these three in turn: E is
equal for all classes, V varies from class to class, I is the identity.

Axes that all classes share (EVE, VVE) are found by rotations in planes. Let f_kj be the scatter of class k
along axis j. With the most likely volumes and shapes for given axes, this function is to be minimised:
Σ_k n_k Σ_j ln f_kj if volumes vary, and Σ_k (Π_j f_kj)^(1/d) if they are equal. A sweep rotates in the plane
of each pair of axes, half of the axes in disjoint planes at a time.

If volumes vary, each plane has terms of its own. If they are equal, let x_kp be the factor by which the
product of the two scatters in plane p changes. By the inequality of weighted means, with weights 2/d (and 1/d
for an axis left alone), Π_p x_kp^(1/d) ≤ (2/d) Σ_p x_kp^(1/2) + rest, and the two sides touch where nothing
changes. So the function falls if Σ_k w_k x_kp^(1/2) does in each plane, where w_k is (Π_j f_kj)^(1/d) before.

References
----------
Celeux & Govaert (1995), "Gaussian parsimonious clustering models", Pattern Recognition 28;
Bensmail & Celeux (1996), "Regularized Gaussian discriminant analysis through eigenvalue decomposition",
Journal of the American Statistical Association 91.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from streamgda.models.gaussians.axes import principal_axes, signed
from streamgda.models.gaussians.densities import SeparateGaussians
from streamgda.models.gaussians.whitening import Array, Whitening

_MOST_STEPS = 10_000
_TOL_OF_VOLUME = 1e-13  # change of the logarithm of a volume
_TOL_OF_MATRIX = 1e-12
_LARGEST_DRIFT = 1e-6  # a larger change in half of the steps means that there is no maximum
_NO_MAXIMUM = (
    "the likelihood of the volumes has no maximum, since too many rows are of classes that lack directions. "
    "Bring more rows of these classes, or name a model of equal volume (EEE, EEI, EII)"
)


def volumes_and_shapes(parts: Array, weights: Array, volume: str, shape: str) -> tuple[Array, Array]:
    """The most likely volumes λ (K,) and shapes A (K, d) of classes with diagonal scatters.

    Parameters
    ----------
    parts : ndarray of shape (K, d)
        The scatter of each class along each of its axes.
    weights : ndarray of shape (K,)
        The rows of each class.
    volume : {"E", "V"}
        Whether volumes are equal, or vary.
    shape : {"I", "E", "V"}
        Whether shapes are spheres, equal, or vary.

    References
    ----------
    Celeux & Govaert (1995), "Gaussian parsimonious clustering models", section 2.

    Examples
    --------
    >>> volumes_and_shapes(np.array([[4.0, 1.0], [8.0, 2.0]]), np.array([1.0, 1.0]), "V", "E")
    (array([2., 4.]), array([[2. , 0.5],
           [2. , 0.5]]))
    """
    if shape != "E":
        sizes = geometric_means(parts) if shape == "V" else parts.mean(axis=1)
        shapes = parts / sizes[:, None] if shape == "V" else np.ones_like(parts)
        if volume == "V":
            return sizes / weights, shapes
        return np.full(len(parts), sizes.sum() / weights.sum()), shapes
    if volume == "V":
        return last(common_shape(parts, weights), _TOL_OF_VOLUME, _MOST_STEPS)
    pooled = parts.sum(axis=0)
    size = geometric_means(pooled)
    return np.full(len(parts), size / weights.sum()), np.tile(pooled / size, (len(parts), 1))


def common_shape(parts: Array, weights: Array) -> Iterator[tuple[Array, Array]]:
    """Yield volumes (K,) and the common shape, as (K, d), each step likelier than the one before.

    A step maximises the likelihood over the volumes and the shape in turn, each given the other. The
    likelihood has a single maximum.
    """
    volumes = parts.mean(axis=1) / weights
    while True:
        shape = (parts / volumes[:, None]).sum(axis=0)
        shape /= geometric_means(shape)
        volumes = (parts / shape).mean(axis=1) / weights
        yield volumes, np.tile(shape, (len(parts), 1))


def proportional_covariances(scatter: Array, weights: Array) -> Array:
    """The most likely covariances (K, d, d) that are multiples of one another, given scatters (K, d, d)."""
    deviations = np.sqrt(np.einsum("kii->i", scatter))
    units = np.outer(deviations, deviations)  # the steps do not depend on them
    volumes, matrix = last(common_matrix(scatter / units, weights), _TOL_OF_MATRIX, _MOST_STEPS)
    return volumes[:, None, None] * matrix * units


def common_matrix(scatter: Array, weights: Array) -> Iterator[tuple[Array, Array]]:
    """Yield multiples (K,) and a matrix (d, d) of determinant 1, each step likelier than the one before.

    A step maximises the likelihood over the multiples and the matrix in turn, each given the other. The
    likelihood has a single maximum.
    """
    n_features = scatter.shape[-1]
    volumes = np.einsum("kii->k", scatter) / (n_features * weights)
    while True:
        matrix = np.tensordot(1 / volumes, scatter, axes=1)
        matrix /= np.exp(np.linalg.slogdet(matrix)[1] / n_features)
        volumes = np.einsum("kij,ij->k", scatter, np.linalg.inv(matrix)) / (n_features * weights)
        yield volumes, matrix


def last(steps: Iterator[tuple[Array, Array]], converged: float, most: int) -> tuple[Array, Array]:
    """The step after which no volume changes by more than a share of itself.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the volumes do not stop changing, since the likelihood has no maximum. If only rounding changes
        them, since the covariances are nearly singular, the last step is returned.
    """
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):  # a matrix may become singular
        volumes, other = next(steps)
        for step in range(most):
            before = volumes
            volumes, other = next(steps)
            change = np.abs(np.log(volumes / before))
            if (change <= converged).all():
                return volumes, other
            if not np.isfinite(change).all():
                break
            if step == most // 2:
                halfway = volumes
        else:
            if (np.abs(np.log(volumes / halfway)) <= _LARGEST_DRIFT).all():
                return volumes, other
    raise np.linalg.LinAlgError(_NO_MAXIMUM)


def geometric_means(parts: Array) -> Array:
    """The geometric mean over the last axis."""
    means: Array = np.exp(np.log(parts).mean(axis=-1))
    return means


_CLASS_STARTS = 4
_RANDOM_STARTS = 8
_FIRST_CUT = 8  # sweeps; after them, and after each doubling, only the better half of the starts goes on
_MOST_SWEEPS = 512
_MOST_VALUES = 1 << 24  # of the factors that are rotated for all starts together
_TOL_OF_DEVIANCE = 1e-13  # fall of the deviance of a row and feature, by a sweep
_ANGLES = np.linspace(0.0, np.pi, 16, endpoint=False)
_SPACING = float(_ANGLES[1])
_STEPS = 3
_LEAST = 4 * float(np.finfo(np.float64).eps)  # a determinant over the product that it is a difference from


def common_axes(scatter: Array, weights: Array, volume: str) -> Array:
    """The most likely axes, as columns (d, d), that classes with these scatters (K, d, d) share.

    There may be several maxima of the likelihood. This is the best of those found from several starts: the
    axes of the pooled scatter, the features, the axes of the heaviest classes, and random ones.

    References
    ----------
    Flury & Gautschi (1986), "An algorithm for simultaneous orthogonal transformation of several positive
    definite symmetric matrices to nearly diagonal form", SIAM Journal on Scientific and Statistical
    Computing 7; Browne & McNicholas (2014), "Estimating common principal components in high dimensions",
    Advances in Data Analysis and Classification 8.
    """
    scatter = np.ldexp(scatter, -np.frexp(scatter.max())[1])  # so that products do not exceed float64
    factors = np.array([scipy.linalg.cholesky(matrix) for matrix in scatter])
    axes = _best(factors, starts(scatter, weights), weights, volume)
    along = np.einsum("ij,kjl,il->i", axes, scatter, axes)
    return signed(axes[np.argsort(-along)].T)


def starts(scatter: Array, weights: Array) -> Array:
    """Axes to start from, as rows: (n_starts, d, d)."""
    n_features = scatter.shape[-1]
    heaviest = np.argsort(-weights, kind="stable")[:_CLASS_STARTS]
    matrices = [scatter.sum(axis=0), *scatter[heaviest]]
    random = np.random.default_rng(0).standard_normal((_RANDOM_STARTS, n_features, n_features))
    principal = [principal_axes(matrix)[1].T for matrix in matrices]
    starts = np.concatenate((principal, [np.eye(n_features)], np.linalg.qr(random).Q))
    return starts[: max(1, _MOST_VALUES // scatter.size)]


def _best(factors: Array, axes: Array, weights: Array, volume: str) -> Array:
    """The axes (d, d), as rows, that sweeps find from the best of some starts (n_starts, d, d)."""
    n_sweeps, is_converged = _FIRST_CUT, False
    while n_sweeps < _MOST_SWEEPS and not is_converged:
        axes, is_converged = _swept(factors, axes, weights, volume, n_sweeps)
        axes, n_sweeps = axes[: (len(axes) + 1) // 2], 2 * n_sweeps
    best: Array = axes[0]
    return best


def _swept(factors: Array, starts: Array, weights: Array, volume: str, n_sweeps: int) -> tuple[Array, bool]:
    """The axes after so many sweeps from each start, the likeliest first, and whether they have converged.

    The deviance of a row never rises: it is −2 times the log-likelihood, up to a constant, over the rows. The
    first sweeps try all angles in each plane, and later ones small angles only.

    Parameters
    ----------
    factors : ndarray of shape (K, d, d)
        R_k, with R_kᵀ R_k the scatter of class k.
    starts : ndarray of shape (n_starts, d, d)
        Where to start, with axes as rows.
    weights : ndarray of shape (K,)
        The rows of each class.
    volume : {"E", "V"}
        Whether the volumes of the classes are equal or vary.
    n_sweeps : int
        How many sweeps there are at most.
    """
    turned = np.einsum("kij,slj->skli", factors, starts)  # R_k d, for each start, class and axis d
    axes, values, is_converged = starts.copy(), np.full(len(starts), np.inf), False
    for _ in range(n_sweeps):
        for planes in _rounds(axes.shape[-1]):
            _rotate(turned, axes, planes, weights, volume, everywhere=n_sweeps == _FIRST_CUT)
        before, values = values, _deviances(np.vecdot(turned, turned), weights, volume)
        is_converged = bool((before - values <= _TOL_OF_DEVIANCE * axes.shape[-1]).all())
        if is_converged:
            break
    return axes[np.argsort(values)], is_converged


def _deviances(along: Array, weights: Array, volume: str) -> Array:
    """The deviances (n_starts,) of scatters (n_starts, K, d) along axes."""
    if volume == "E":
        deviances: Array = along.shape[-1] * np.log(geometric_means(along).sum(axis=1))
    else:
        deviances = np.log(along).sum(axis=2) @ (weights / weights.sum())
    return deviances


def _rotate(
    turned: Array,
    axes: Array,
    planes: tuple[NDArray[np.intp], NDArray[np.intp]],
    weights: Array,
    volume: str,
    *,
    everywhere: bool,
) -> None:
    """Rotate the two axes of each plane to where they are likeliest, in place."""
    first, second = planes
    if volume == "E":
        weights = geometric_means(np.vecdot(turned, turned))[:, None, :]
    ours, theirs = turned[:, :, first], turned[:, :, second]
    pairs = (ours, ours), (theirs, theirs), (ours, theirs)
    a, b, c = (np.vecdot(*pair).transpose(0, 2, 1) for pair in pairs)
    angles = Planes(a, b, c, weights, volume).best_angles(everywhere=everywhere)[..., None]
    cosines, sines = np.cos(angles), np.sin(angles)
    turned[:, :, first] = cosines[:, None] * ours + sines[:, None] * theirs
    turned[:, :, second] = cosines[:, None] * theirs - sines[:, None] * ours
    ours, theirs = axes[:, first], axes[:, second]
    axes[:, first], axes[:, second] = cosines * ours + sines * theirs, cosines * theirs - sines * ours


def _rounds(n_axes: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Every pair of axes once, in rounds of disjoint pairs: a round-robin schedule."""
    places = np.arange(n_axes + n_axes % 2)  # if the number is odd, the last is no axis
    for _ in range(len(places) - 1):
        pairs = places[: len(places) // 2], places[len(places) // 2 :][::-1]
        real = (pairs[0] < n_axes) & (pairs[1] < n_axes)
        yield pairs[0][real], pairs[1][real]
        places = np.concatenate((places[:1], np.roll(places[1:], 1)))


class Planes:
    """How the scatters along the two axes of each plane depend on the angle.

    Let a and b be the scatters along the two axes, and c their product moment. A rotation by ψ/2 leaves the
    determinant a b − c² as it is, and makes the product moment c cos ψ − (a − b)/2 sin ψ. So the product of
    the two scatters is the determinant plus the square of that, a sum of positive terms: it keeps its digits
    if one scatter is far larger than the other. All arrays are of shape (..., K), with the classes last.

    Attributes
    ----------
    determinant : ndarray
        a b − c².
    half : ndarray
        (a − b)/2.
    moment : ndarray
        c.
    weights : ndarray
        The weights of the classes.
    volume : {"E", "V"}
        Whether to minimise Σ w (x^(1/2) − 1) ("E") or Σ w ln x ("V"), where x is the product of the scatters
        over that at ψ = 0.
    """

    def __init__(self, first: Array, second: Array, moment: Array, weights: Array, volume: str) -> None:
        product = first * second
        self.determinant = np.maximum(product - moment**2, _LEAST * product)
        self.half, self.moment, self.weights, self.volume = (first - second) / 2, moment, weights, volume

    def best_angles(self, *, everywhere: bool) -> Array:
        """The angles ψ/2 (...), in (−π/4, π/4], at which the sum is least; 0 where none makes it smaller.

        They are searched for everywhere, or only near 0, which takes a fraction of the time.
        """
        grid = _ANGLES if everywhere else _ANGLES[:1]
        of_grid = self.value(grid.reshape(-1, *[1] * (self.half.ndim - 1)))
        best, least = _ANGLES[of_grid.argmin(axis=0)], of_grid.min(axis=0)
        for _ in range(_STEPS):
            for step in self._steps(best):
                value = self.value(best + step)
                best, least = np.where(value < least, best + step, best), np.minimum(value, least)
        angles: Array = (best - np.pi * np.round(best / np.pi)) / 2
        return angles

    def value(self, psi: Array) -> Array:
        """The sum at angles ψ/2: (...). It is 0 at 0."""
        change = self._change(psi)
        terms = np.expm1(change / 2) if self.volume == "E" else change
        total: Array = np.vecdot(self.weights, terms)
        return total

    def _change(self, psi: Array) -> Array:
        """The logarithm of x, which keeps its digits at small angles."""
        moved = -(self.half * np.sin(psi)[..., None] + 2 * self.moment * np.sin(psi / 2)[..., None] ** 2)
        change: Array = np.log1p(moved * (2 * self.moment + moved) / (self.determinant + self.moment**2))
        return change

    def _steps(self, psi: Array) -> tuple[Array, Array]:
        """Two steps: one that never raises the sum, and Newton's, or 0 if that raises the sum or is long."""
        cosine, sine = np.cos(psi)[..., None], np.sin(psi)[..., None]
        moment = self.moment * cosine - self.half * sine
        half = self.half * cosine + self.moment * sine
        weights, bent = self.weights, 1.0
        if self.volume == "E":
            weights, bent = weights * np.exp(self._change(psi) / 2), 0.5
        product = self.determinant + moment**2
        return _safe_step(weights / product, moment, half), _newton_step(weights, product, moment, half, bent)


def _safe_step(weights: Array, moment: Array, half: Array) -> Array:
    """The angle at which Σ w (c cos ψ − (a − b)/2 sin ψ)² is least.

    x^(1/2) and ln x are concave, so their sum is never above that of their tangents at ψ = 0. The sum of the
    tangents is this one, up to a constant. So if this one falls, the sum falls.
    """
    square, cross, other = (np.vecdot(weights, part) for part in (half**2, half * moment, moment**2))
    step: Array = np.arctan2(cross, (square - other) / 2) / 2
    return step


def _newton_step(weights: Array, product: Array, moment: Array, half: Array, bent: float) -> Array:
    """−h′/h″ if that lowers h and is no longer than the spacing of the grid; else 0."""
    slope = -2 * moment * half / product
    bend = 2 * (half**2 - moment**2) / product - bent * slope**2
    first, second = np.vecdot(weights, slope), np.vecdot(weights, bend)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = -first / second
    return np.where((second > 0) & (np.abs(step) < _SPACING), step, 0.0)


MODELS = (
    "EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"
)  # fmt: skip
"""The models, named by volume, shape and orientation."""


@dataclass(frozen=True, eq=False)
class ParsimoniousCovariances:
    """The covariances of K classes of d features, λ_k D_k A_k D_kᵀ.

    Attributes
    ----------
    covariances : ndarray of shape (K, d, d)
        The covariances.
    volumes : ndarray of shape (K,)
        λ, the geometric means of their eigenvalues.
    shapes : ndarray of shape (K, d)
        The diagonals of A: the eigenvalues over their geometric mean.
    orientations : ndarray of shape (K, d, d)
        D, with the axes as columns.
    """

    covariances: Array
    volumes: Array
    shapes: Array
    orientations: Array


def fit(model: str, scatter: Array, weights: Array) -> ParsimoniousCovariances:
    """The maximum-likelihood covariances of a model.

    Parameters
    ----------
    model : str
        One of `MODELS`.
    scatter : ndarray of shape (K, d, d)
        Σ (x − mean)(x − mean)ᵀ of each class. They must determine the model.
    weights : ndarray of shape (K,)
        The rows of each class.

    References
    ----------
    Celeux & Govaert (1995), "Gaussian parsimonious clustering models", Pattern Recognition 28, section 2.

    Examples
    --------
    >>> scatter = np.array([[[4.0, 1.0], [1.0, 2.0]], [[6.0, -1.0], [-1.0, 4.0]]])
    >>> fit("EEI", scatter, np.array([5.0, 5.0])).covariances[0]
    array([[1. , 0. ],
           [0. , 0.6]])
    """
    volume, shape, orientation = tuple(model)
    if model == "VEE":
        return _decomposed(proportional_covariances(scatter, weights))
    if model in {"EEE", "VVV", "EVV"}:
        return _of_scatter(model, scatter, weights)
    parts, axes = _along_axes(orientation, volume, scatter, weights)
    volumes, shapes = volumes_and_shapes(parts, weights, volume, shape)
    covariances = np.einsum("kij,kj,klj->kil", axes, volumes[:, None] * shapes, axes)
    return ParsimoniousCovariances(covariances, volumes, shapes, axes)


@dataclass(frozen=True, eq=False)
class ParsimoniousGaussians(SeparateGaussians):
    """Densities with the covariances of a model.

    Attributes
    ----------
    model : str
        The model.
    fitted : ParsimoniousCovariances
        Its covariances, with their volumes, shapes and orientations.
    bic : dict of str to float
        The criterion of each model that was compared.
    failures : dict of str to str
        Why the other models were not compared.
    """

    model: str
    fitted: ParsimoniousCovariances
    bic: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, model: str, means: Array, scatter: Array, weights: Array, least_eigenvalue: float
    ) -> ParsimoniousGaussians:
        """The most likely densities of a model, given means (K, d), scatters (K, d, d) and weights (K,).

        Raises
        ------
        numpy.linalg.LinAlgError
            If the likelihood has no maximum, or a covariance is singular.
        """
        fitted = fit(model, scatter, weights)
        whitenings = [
            Whitening.of(covariance, means[[k]], least_eigenvalue)
            for k, covariance in enumerate(fitted.covariances)
        ]
        n_singular = sum(whitening.rank < means.shape[1] for whitening in whitenings)
        if n_singular:
            raise np.linalg.LinAlgError(f"{n_singular} of {len(means)} covariances are singular up to `tol`")
        return cls(means, whitenings, model, fitted)

    @property
    def n_covariance_parameters(self) -> int:
        """The number of free parameters of the covariances."""
        volume, shape, orientation = tuple(self.model)
        n_classes, n_features = map(int, self.means.shape)
        times = {"I": 0, "E": 1, "V": n_classes}
        rotation = n_features * (n_features - 1) // 2
        return times[volume] + times[shape] * (n_features - 1) + times[orientation] * rotation


def _of_scatter(model: str, scatter: Array, weights: Array) -> ParsimoniousCovariances:
    """The covariances that are a scatter, pooled or not, divided by a number; so no digit is lost."""
    if model == "EEE":
        return _decomposed(np.tile(scatter.sum(axis=0) / weights.sum(), (len(weights), 1, 1)))
    if model == "VVV":
        return _decomposed(scatter / weights[:, None, None])
    sizes = geometric_means(np.array([principal_axes(matrix)[0] for matrix in scatter]))
    return _decomposed(scatter * (sizes.sum() / weights.sum() / sizes)[:, None, None])


def _along_axes(orientation: str, volume: str, scatter: Array, weights: Array) -> tuple[Array, Array]:
    """The scatters of the classes along their axes (K, d), and the axes as columns (K, d, d)."""
    if orientation == "I":
        return np.einsum("kii->ki", scatter), np.tile(np.eye(scatter.shape[-1]), (len(scatter), 1, 1))
    if orientation == "V":
        values, vectors = zip(*map(principal_axes, scatter), strict=True)
        return np.array(values), np.array(vectors)
    axes = common_axes(scatter, weights, volume)
    turned = np.linalg.cholesky(scatter).transpose(0, 2, 1) @ axes
    return (turned**2).sum(axis=1), np.tile(axes, (len(scatter), 1, 1))


def _decomposed(covariances: Array) -> ParsimoniousCovariances:
    values, vectors = (np.array(part) for part in zip(*map(principal_axes, covariances), strict=True))
    volumes = geometric_means(values)
    return ParsimoniousCovariances(covariances, volumes, values / volumes[:, None], vectors)
