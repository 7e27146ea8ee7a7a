"""The shares of the classes in rows without labels, where they differ from those of the rows learnt."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc
from sklearn.utils import check_scalar

from streamgda.data.blocks.block import Block, mixed
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.sparse import SparseRows, is_sparse
from streamgda.data.blocks.wording import callers_level
from streamgda.data.sources.base import Source
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.data.sources.splits import ScorableSplit, group_into_tasks
from streamgda.jobs.passes import compute
from streamgda.jobs.passes.plan import Plan
from streamgda.jobs.scoring.inference import Model, score_slice, slices_of, snapshot, with_features_of
from streamgda.jobs.scoring.predict import as_scorable
from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.reading import check_rows
from streamgda.models.gaussians.posteriors import Array, posteriors

_MOST_STEPS = 2000
_LEAST_GAIN = 1e-4  # of the log-likelihood of all rows, which moves a share by 0.014 standard errors
_SURE = 0.01
_LAST = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class PriorEstimate:
    """The shares of the classes in rows without labels, as `estimate_priors` returns them.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The classes of the model.
    shares : ndarray of shape (n_classes,)
        Their estimated shares in the rows.
    priors : ndarray of shape (n_classes,)
        The parameter `priors` with which the posterior probabilities of the model are those for these shares.
        They are the shares, unless the model has a temperature T: then they are proportional to
        π (shares / π)^T, for the priors π that the model has had.
    statistic : float
        Twice the logarithm of the likelihood ratio of these shares and the priors of the model.
    p_value : float
        The probability of such a statistic if the shares are still the priors. It takes into account that the
        model, and with it the priors if they were not given, are themselves from a number of rows.
    n_rows : int
        How many rows the estimate is from.
    """

    classes: Labels
    shares: Array
    priors: Array
    statistic: float
    p_value: float
    n_rows: int


def estimate_priors(
    model: Model, X: Any, max_rows: int = 20_000, *, scheduler: Scheduler = None, progress: Progress = False
) -> PriorEstimate:
    """Estimate the shares of the classes in rows without labels, and test whether they have changed.

    It assumes that the rows of each class are distributed as those that the model has learnt. The shares
    maximise the likelihood of the rows, by EM on their posterior probabilities. If these are not right, the
    shares are not, and the test finds changes where there are none. So calibrate the model first, by
    `Evaluation.best_temperature` of labelled rows. Then try this on labelled rows whose shares are known: if
    it does not find them, it does not find others.

    The p-value is that of the likelihood ratio divided by 1 + m / n, for m rows here and n effective rows
    learnt, or by less if the priors are given; see the notes.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : array-like of shape (n_rows, n_features), source, path or URL
        Rows in memory; or a source or path as for `predict_dataset`, which is read once.
    max_rows : int, default=20,000
        How many rows are taken. Of more, those are taken whose places have the lowest hashes, so that the
        sample is the same with every scheduler.
    scheduler, progress : optional
        For a source, as for `accumulate`.

    Returns
    -------
    PriorEstimate
        With `shares`, `priors` for ``model.set_params(priors=...)``, and the `p_value` of the test.

    Raises
    ------
    ValueError
        If there are no rows, `max_rows` is below 1, or a row cannot be scored.
    TypeError
        If `max_rows` is no whole number.

    Warns
    -----
    UserWarning
        If the shares seem to have changed (p < 0.01), and the model has no temperature: its probabilities
        have not been calibrated.

    Notes
    -----
    Let r be the ratios of the class densities and the density of all rows, and A = Cov r. Then A is the
    information of a row without a label about the shares. The mean of r over m rows varies by A / m, and by
    the errors of the model. In a model of maximum likelihood, the latter are the projection of r on the
    scores of the parameters, in n labelled rows, so by Bessel's inequality no more than A / n. If priors are
    given, only the errors of the densities are left, (A − A Π A) / n at most, with the priors on the diagonal
    of Π.

    So p-values are right or too large if the model is right, and n is large beside its parameters. If a class
    has as many parameters as rows, p < 0.01 comes in up to a quarter of draws without a change.

    References
    ----------
    Saerens, Latinne & Decaestecker (2002), "Adjusting the outputs of a classifier to new a priori
    probabilities: a simple procedure", Neural Computation 14:21, sections 2.2 and 4; for the bound that ends
    the steps, Lindsay (1983), "The geometry of mixture likelihoods", Annals of Statistics 11.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgda import GaussianNB, estimate_priors
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 1)), np.arange(400) % 2
    >>> model = GaussianNB(temperature=1.02).fit(X + 2 * y[:, None], y)
    >>> later = np.vstack([rng.normal(size=(360, 1)), rng.normal(size=(40, 1)) + 2])
    >>> estimate = estimate_priors(model, later)
    >>> estimate.shares.round(2), estimate.p_value < 1e-9
    (array([0.9, 0.1]), True)
    >>> model.set_params(priors=estimate.priors).predict([[1.0]])
    array([0])
    """
    model = snapshot(model)
    check_scalar(max_rows, "max_rows", Integral, min_val=1)
    if isinstance(X, Source | PathLike | str):
        source = with_features_of(model, as_scorable(model, X))
        scheduler = compute.scheduler_for(source, scheduler)
        splits, _ = source.to_score((), compute.opening_on(scheduler))
        groups = list(group_into_tasks(splits))
        plan = Plan(groups, sample_splits, (model, max_rows))
        sample = compute.compute_plan(plan, scheduler, progress) if groups else None
        if sample is None or not len(sample.keys):
            raise ValueError(f"there is nothing to estimate from: {source!r} has no rows")
    else:
        rows = check_rows(model, X)
        features = SparseRows(rows) if is_sparse(rows) else rows
        block = Block(features, np.zeros(1, np.int64), np.zeros(rows.shape[0], np.uint8))
        sample = _sample_of(model, block, max_rows)
    return _estimate(model, sample.posterior)


def _estimate(model: Model, posterior: Array) -> PriorEstimate:
    """The shares by posterior probabilities (n, K), and the test."""
    priors, n_rows = posteriors(finalised(model).log_priors[None, :])[0], len(posterior)
    has_prior = priors > 0
    ratios = np.divide(posterior, priors, out=np.zeros_like(posterior), where=has_prior)
    shares = priors
    for _ in range(_MOST_STEPS):
        evidence = ratios @ shares
        gains = (1 / evidence) @ ratios / n_rows
        if n_rows * (gains.max() - 1) < _LEAST_GAIN:  # no shares are likelier by more
            break
        shares = shares * gains
    else:
        warnings.warn(
            f"the shares did not converge in {_MOST_STEPS:,} steps of EM", stacklevel=callers_level()
        )
    statistic = max(0.0, 2 * float(np.log(evidence).sum()))
    p_value = 1.0
    if has_prior.sum() > 1:
        spread = 1 + n_rows * _error_of_model(model, ratios, priors)
        p_value = float(chdtrc(has_prior.sum() - 1, statistic / spread))
    if p_value < _SURE and model.temperature == 1.0:
        warnings.warn(
            "the shares of the classes seem to have changed. They are estimated by the probabilities of the "
            "model, which have not been calibrated: set its temperature first, to best_temperature of an "
            "evaluation on labelled rows that it has not learnt",
            stacklevel=callers_level(),
        )
    changes = np.divide(shares, priors, out=np.zeros_like(shares), where=has_prior) ** model.temperature
    new_priors = priors * changes / (priors @ changes)
    return PriorEstimate(model.classes_, shares, new_priors, statistic, p_value, n_rows)


def _error_of_model(model: Model, ratios: Array, priors: Array) -> float:
    """How much the errors of the model vary the mean of the ratios, in units of the variance of one row.

    The classes are those that have priors. A class with more or fewer rows than its prior says counts as if
    all classes were known from as many rows for their priors.
    """
    statistics = model.statistics_.by_label()
    error = float((priors[np.isin(model.classes_, statistics.classes)] / statistics.effective_counts).max())
    if model.priors is None:
        return error
    roots, has_prior = np.sqrt(priors), priors > 0
    products = roots[:, None] * (ratios.T @ ratios / len(ratios) - 1) * roots
    eigenvalues = np.linalg.eigvalsh(products[np.ix_(has_prior, has_prior)])
    return error * (1 - float(np.clip(eigenvalues[1], 0.0, 1.0)))  # the first is of the sum of shares, and 0


# ---------------------------------------------------------------------- the sample


@dataclass(eq=False)
class _Sample:
    """The posterior probabilities of the rows whose keys are the lowest, in the order of the keys."""

    keys: NDArray[np.uint64]
    posterior: Array
    most: int
    n_rows: int = 0
    n_dropped: int = 0

    def __add__(self, other: _Sample) -> _Sample:
        keys = np.concatenate([self.keys, other.keys])
        order = keys.argsort(kind="stable")[: self.most]
        posterior = np.concatenate([self.posterior, other.posterior])[order]
        sums = (self.n_rows + other.n_rows, self.n_dropped + other.n_dropped)
        return _Sample(keys[order], posterior, self.most, *sums)


def _sample_of(model: Model, block: Block, most: int, below: np.uint64 = _LAST) -> _Sample:
    """The sample of the rows of a block whose keys are below one. No other rows are scored."""
    n_rows, names = len(block.codes), block.row_name
    keys = mixed(names.numbers(n_rows).astype(np.uint64), crc32(names.dataset.encode()))
    low = np.flatnonzero(keys < below)
    positions = np.sort(low[keys[low].argsort(kind="stable")[:most]])
    part, posterior = block.take(positions), np.empty((len(positions), len(model.classes_)))
    for where in slices_of(part, posterior.shape[1]):
        for scores in score_slice(model, part, where):
            posterior[where][scores.positions] = scores.probabilities
    return _Sample(keys[positions], posterior, most, n_rows, block.n_dropped)


def sample_splits(splits: Iterable[ScorableSplit], shared: tuple[Model, int]) -> _Sample:
    """One task: the sample of the rows of consecutive splits."""
    model, most = shared
    sample = _Sample(np.empty(0, np.uint64), np.empty((0, len(model.classes_))), most)
    for split in splits:
        for block, _ in split.features():
            is_full = len(sample.keys) == most
            sample += _sample_of(model, block, most, sample.keys[-1] if is_full else _LAST)
    return sample
