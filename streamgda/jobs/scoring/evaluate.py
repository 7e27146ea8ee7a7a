"""Evaluate a model on labelled rows: in one pass over a source, or batch by batch while it learns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamgda.data.blocks.arrays import array_blocks, as_table, column_labels, with_columns
from streamgda.data.blocks.block import Block
from streamgda.data.blocks.dates import datetimes_of_days
from streamgda.data.blocks.schema import MadeColumns
from streamgda.data.blocks.sparse import SparseRows
from streamgda.data.blocks.wording import callers_level, check_known, listed
from streamgda.data.sources.base import ScorableSource, Source
from streamgda.data.sources.conversion import is_dask
from streamgda.data.sources.running import Progress
from streamgda.data.sources.splits import Split, group_into_tasks, total
from streamgda.jobs.passes.compute import compute_plan, opening_on, scheduler_for
from streamgda.jobs.passes.plan import Plan, batched
from streamgda.jobs.scoring import inference
from streamgda.jobs.scoring.adaptive import AdaptiveConformalInference
from streamgda.jobs.scoring.evaluation import Evaluation
from streamgda.jobs.scoring.inference import Model
from streamgda.models.estimators.forgetting import Times, factor_after, times_of, weights_after
from streamgda.models.estimators.reading import check_batch, check_no_name, check_rows, missing_for
from streamgda.models.gaussians.posteriors import Array, order_of
from streamgda.statistics.kernels.threads import in_threads

Batch = Sequence[Any]

_ROWS_AT_ONCE = 1 << 12  # enough rows to be worth a call for each class
_LARGEST_TO_BE_KEPT = (32 << 20) // 8 - 4096  # float64 values, with room for what malloc adds
_BLOCKS_TOGETHER = 4  # of rows in memory
_ROWS_FOR_TEMPERATURES = 20_000  # from which a temperature is known to one or two per cent


def evaluate(
    model: Model,
    source: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    threshold: float | None = None,
    pos_label: Any = None,
    costs: ArrayLike | None = None,
    temperatures: bool = True,
    scheduler: Any = None,
    progress: Progress = False,
) -> Evaluation:
    """Evaluate a fitted model on labelled rows, in one pass and in bounded memory.

    The source fixes the order of summation, so the bits are the same with every scheduler and any number of
    workers.

    Parameters
    ----------
    model : estimator, pipeline of transformers and an estimator, or search
        Fitted.
    source : source, array-like of shape (n_rows, n_features), dask array or DataFrame
        Rows; or a source, such as `scan_parquet` returns, which has its own target and weights. From a source
        or a dask DataFrame, the features of the model are read, by name.
    y : array-like of shape (n_rows,), dask array or Series, optional
        Labels; for a dask DataFrame also the name of its column of labels. Not given with a source.
    sample_weight : array-like of shape (n_rows,), dask array or Series, optional
        Repetitions of each row, whole or fractional. Not given with a source.
    threshold, costs : optional
        How classes are predicted, as for `predict_dataset`. The mean cost is
        ``(evaluation.confusion_matrix * costs).sum() / evaluation.weight``.
    pos_label : int, str or bool, optional
        The positive class, to which a threshold applies, and which curves and displays of the result show.
        By default the second of two.
    temperatures : bool, default=True
        Whether to add up the losses at other temperatures, for `best_temperature` of the result: of all rows,
        or of a sample of about 20,000, if the source knows that it has more.
    scheduler : optional
        The scheduler, as for `accumulate`.
    progress : bool or callable, default=False
        Whether to show rows done, rows per second and the time left.

    Returns
    -------
    Evaluation
        Confusion, accuracy, precision, recall, log loss, Brier score, ROC, precision-recall and calibration
        curves. A class that the model has never seen has probability 0.

    Raises
    ------
    ValueError
        If there are no rows, if their features are not those of the model, if a row cannot be scored, or if
        the model knows none of the labels. The message names the place.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgda import GaussianNB, evaluate
    >>> X, y = np.array([[1.0], [2.0], [6.0], [9.0], [3.0]]), np.array([0, 0, 1, 1, 1])
    >>> evaluation = evaluate(GaussianNB().fit(X[:4], y[:4]), X, y)
    >>> evaluation.accuracy
    0.8
    >>> evaluation.confusion_matrix
    array([[2, 0],
           [1, 2]])
    """
    whole, (maps, model) = model, inference.maps_and_model(model)
    model = inference.snapshot(model)
    decision = inference.Decision.of(model, threshold, costs, pos_label)
    if isinstance(source, Source) or is_dask(source):
        source = inference.scan_for(whole, source, y, sample_weight)
        source = inference.with_features_of(model, source, maps)
        scheduler = scheduler_for(source, scheduler)
        groups = list(group_into_tasks(source.planned(opening_on(scheduler))))
        if not groups:
            raise ValueError(f"there is nothing to evaluate: {source!r} has no rows")
        n_rows = total(split.n_rows for group in groups for split in group)
        n_rows = n_rows and round(n_rows * prod(part.share_of_rows for part in source.parts))
        plan = Plan(groups, evaluate_splits, (model, decision, temperatures * _share_of(n_rows)))
        evaluation: Evaluation = compute_plan(plan, scheduler, progress)
    else:
        check_batch(source)
        rows = source if maps is None else maps.transform(source)
        blocks, (n_rows, *_) = _blocks_of(model, rows, y, sample_weight), getattr(rows, "shape", (None,))
        evaluation = _evaluate_in_memory(model, blocks, decision, temperatures * _share_of(n_rows))
    _check_labels(model, evaluation)
    evaluation.pos_label = None if pos_label is None else model.known_labels.tolist()[decision.positive]
    return evaluation


def progressive_score(
    model: Model,
    batches: Iterable[Batch] | Source,
    *,
    step: int | None = None,
    half_life: float | None = None,
    time: str | None = None,
    coverage: float | AdaptiveConformalInference | None = None,
) -> Any:
    """Test, then train, batch by batch: each batch is scored by the model that learnt the batches before it.

    Parameters
    ----------
    model : estimator
        Fitted or not. It learns all the batches.
    batches : iterable of (X, y) or (X, y, sample_weight), or source
        Rows with their labels, as for `partial_fit`. A source is read block by block, in order.
    step : int, optional
        Return a list of evaluations: a curve over time. Each evaluates consecutive batches with at least this
        many rows together. The sum of the list is the evaluation of all batches.
    half_life : float, optional
        After this many further rows, a row counts half as much in the evaluation (Gama's fading factor). With
        `step`, each evaluation is then of all rows so far. The model forgets rows by its own `half_life`.
    time : str, optional
        A column of the rows, which is no feature then, with the time of each. Half-lives, also that of the
        model, are in its unit: days for dates.
    coverage : float or AdaptiveConformalInference, optional
        The share of the prediction sets that should hold the class of their row. Each batch has the sets of
        the quantile of all batches tested before, at a level that moves after each batch. Where there are too
        few rows, as for the first batch, all classes are in each set. The evaluations then have `coverage`,
        `class_coverage` and `mean_set_size`. Give an `AdaptiveConformalInference` for another `gamma`, or for
        a level of each class; it is left at the last level.

    Returns
    -------
    Evaluation, or list of Evaluation
        The evaluation of the batches that come after the model has learnt rows of two classes; of all of
        them, if it had learnt such before.

    Raises
    ------
    ValueError
        If a batch cannot be learnt or scored.

    Warns
    -----
    UserWarning
        If batches were learnt, and none was scored, as where a source has a single block.

    References
    ----------
    Gama, Sebastião & Rodrigues (2013), "On evaluating stream learning algorithms": prequential evaluation;
    river calls it progressive validation.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgda import GaussianNB, progressive_score
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, size=(10, 100))
    >>> batches = [(rng.normal(size=(100, 2)) + 9 * labels[:, None], labels) for labels in y]
    >>> progressive_score(GaussianNB(), batches)
    Evaluation(classes=2, rows=900, accuracy=1)
    >>> [evaluation.n_rows for evaluation in progressive_score(GaussianNB(), batches, step=400)]
    [400, 400, 100]
    >>> round(progressive_score(GaussianNB(), batches, coverage=0.8).coverage, 1)
    0.8
    """
    _check_ages(model, half_life, time)
    if step is not None and not step >= 1:
        raise ValueError(f"step must be a positive number of rows; got {step!r}")
    evaluations, evaluation, n_new = [], Evaluation(), 0
    for of_batch, half_lives in _scored_batches(model, batches, half_life, time, _Sets(coverage)):
        if half_lives:
            evaluation.decay(factor_after(half_lives))
        evaluation.merge(of_batch)
        n_new += of_batch.n_rows
        if step is not None and n_new >= step:
            evaluations.append(0 + evaluation)
            n_new = 0
            if half_life is None:
                evaluation = Evaluation()
    if step is None:
        return evaluation
    return [*evaluations, evaluation] if n_new else evaluations


def _check_ages(model: Model, half_life: float | None, time: str | None) -> None:
    if half_life is not None and not half_life > 0:
        raise ValueError(f"half_life must be a positive number; got {half_life!r}")
    if time is not None and half_life is None and getattr(model, "half_life", None) is None:
        raise ValueError("time says how old rows are, which counts with half_life alone; give both")


def _scored_batches(
    model: Model, batches: Iterable[Batch] | Source, half_life: float | None, time: str | None, sets: _Sets
) -> Iterator[tuple[Evaluation, float]]:
    """Learn all the batches. Yield the evaluation of each batch that the model could predict before.

    Beside it, yield how many half-lives the rows before have aged since.
    """
    newest: Times | None = None
    n_learnt = n_scored = 0
    unit = half_life or np.inf
    options: dict[str, Any]
    are_dates = _has_dates(batches, time) if isinstance(batches, Source) and time is not None else False
    for batch in _batches_of(batches):
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise TypeError(f"a batch is (X, y) or (X, y, sample_weight); got {type(batch).__name__}")
        X, y, *weights = batch
        weight = faded = weights[0] if weights else None
        age, options = None, {"sample_weight": weight}
        if time is not None:
            X, times = _without_times(X, time, are_dates)
            before = newest
            if (known := times.newest(before)) is not None and (weight is None or np.any(weight)):
                newest = known
            age = 0.0 if newest is None or before is None else newest.values - before.values
            if half_life and newest is not None:
                faded = weights_after((newest.values - times.values) / unit, weight)
            options |= {"time": times} if getattr(model, "half_life", None) else {}
        if np.shape(X)[:1] != (0,) and _knows_two_classes(model):
            n_scored += 1
            of_batch = _evaluate_in_memory(model, _blocks_of(model, X, y, faded), sets.decision(model))
            half_lives = (of_batch.n_rows if age is None else age) / unit
            sets.learn(of_batch, half_lives)
            yield of_batch, half_lives
        model.partial_fit(X, y, **options)
        n_learnt += 1
    if n_learnt and not n_scored:
        warnings.warn(
            f"no batch came after the model had learnt two classes, so none of {n_learnt} was scored; give "
            "smaller batches as (X, y). A source is read block by block",
            stacklevel=callers_level(),
        )


class _Sets:
    """The prediction sets of each batch, by the quantile of those before; none without a coverage."""

    def __init__(self, coverage: float | AdaptiveConformalInference | None) -> None:
        is_number = coverage is not None and not isinstance(coverage, AdaptiveConformalInference)
        adaptive: Any = coverage
        self.adaptive = AdaptiveConformalInference(adaptive) if is_number else adaptive
        self.judged = Evaluation()

    def decision(self, model: Model) -> inference.Decision:
        if self.adaptive is None:
            return inference.Decision()
        return inference.Decision(quantile=self.adaptive.quantile(self.judged, model.known_labels))

    def learn(self, of_batch: Evaluation, half_lives: float) -> None:
        if self.adaptive is not None:
            self.adaptive.move(of_batch)
            if half_lives:
                self.judged.decay(factor_after(half_lives))
            self.judged.merge(of_batch)


def _knows_two_classes(model: Model) -> bool:
    """Whether a model has learnt rows of two classes; it is certain of a single one."""
    return hasattr(model, "statistics_") and len(model.labels_of(model.statistics_)) > 1


def _has_dates(source: Source, name: str) -> bool | None:
    """Whether a column of a source, whose blocks hold numbers, is of dates; None if that is not known."""
    if not isinstance(source, ScorableSource) or source.is_one_shot:
        return None
    with suppress(ValueError):  # it is computed, or there is none
        kind = str(source.to_score([name])[1].field(name).type)
        if kind.startswith(("time32", "time64", "duration", "bool")):
            raise TypeError(f"time: column {name!r} of type {kind} is neither of dates nor of numbers")
        return kind.startswith(("date", "timestamp"))
    return None


def _without_times(X: Any, name: str, are_dates: bool | None) -> tuple[Any, Times]:
    """A frame without the column of times, and these."""
    X = as_table(X)
    names = column_labels(X) or []
    check_known([name], names, "the rows of a batch")
    return with_columns(X, [other for other in names if other != name]), times_of(X[name], are_dates)


def _batches_of(batches: Iterable[Batch] | Source) -> Iterator[Batch]:
    """Yield batches as they are; for a source, yield (X, y, sample_weight) of each block."""
    if not isinstance(batches, Source):
        yield from batches
        return
    import pandas as pd

    for split in batches.splits():
        for block in split.blocks():
            X = block.values(slice(0, len(block.codes)))
            if isinstance(block.features, SparseRows):
                yield X, block.classes[block.codes], block.weights
                continue
            if isinstance(block.features, MadeColumns):
                X = pd.DataFrame(block.features.by_name())
            elif block.feature_names is not None:
                X = pd.DataFrame(X, columns=list(block.feature_names), copy=False)
            dates = block.schema.dates
            X = X.assign(**{name: datetimes_of_days(X[name].to_numpy()) for name in dates}) if dates else X
            yield X, block.classes[block.codes], block.weights


# ---------------------------------------------------------------------- tasks


def evaluate_splits(splits: Iterable[Split], shared: tuple[Model, inference.Decision, float]) -> Evaluation:
    """One task: the evaluation of a model on consecutive splits, in order."""
    model, decision, share = shared
    _keep_freed_memory()
    blocks = (block for split in splits for block in split.blocks())
    return _evaluate_blocks(model, blocks, decision, share)


@cache
def _keep_freed_memory() -> None:
    """Let glibc keep memory that is freed between blocks, rather than ask the kernel for new pages each time.

    It returns what exceeds twice the largest array that was freed, of up to 32 MB. This one takes no pages.
    """
    np.empty(_LARGEST_TO_BE_KEPT)


def _share_of(n_rows: int | None) -> float:
    """The share of the rows whose losses at other temperatures are added up: of all, if there are few."""
    return min(1.0, _ROWS_FOR_TEMPERATURES / (n_rows or 1))


def _evaluate_in_memory(
    model: Model, blocks: Iterator[Block], decision: inference.Decision, share: float = 1.0
) -> Evaluation:
    """The evaluation of blocks in memory. Threads score groups of them, whose evaluations merge in order."""
    groups = iter(lambda: list(islice(blocks, _BLOCKS_TOGETHER)), [])
    parts = in_threads(lambda group: _evaluate_blocks(model, group, decision, share), groups)
    evaluation = next(parts, None) or Evaluation()
    for part in parts:
        evaluation.merge(part)
    return evaluation


def _evaluate_blocks(
    model: Model, blocks: Iterable[Block], decision: inference.Decision, share: float
) -> Evaluation:
    evaluation, labels = Evaluation(), model.known_labels
    for block in blocks:
        evaluation.n_dropped += block.n_dropped
        every = inference.slices_of(block, len(labels))
        n_together = 1 + _ROWS_AT_ONCE // every[0].stop if every else 1
        for slices in batched(every, n_together):
            some = slice(slices[0].start, slices[-1].stop)
            scores = _posterior_scores(model, block, slices)
            weights = None if block.weights is None else block.weights[some].astype(np.float64, copy=False)
            answers = None if decision.is_by_posterior else decision.ranked(scores)[:, 0]
            rows = (block.classes, block.codes[some], scores, labels, weights, answers)
            evaluation.add_coded(*rows, float(model.temperature), share, decision.quantile)
    return evaluation


def _posterior_scores(model: Model, block: Block, slices: Sequence[slice]) -> Array:
    """The posterior scores of the rows of neighbouring slices: (n, K)."""
    n_classes, first = len(model.known_labels), slices[0].start
    result = np.empty((slices[-1].stop - first, n_classes), order=order_of(n_classes))
    for where in slices:
        for scores in inference.score_slice(model, block, where):
            result[where.start - first : where.stop - first][scores.positions] = scores.posterior_scores
    return result


def _blocks_of(model: Model, X: Any, y: Any, sample_weight: Any) -> Iterator[Block]:
    """Blocks of labelled rows in memory, validated for a fitted model."""
    check_batch(X)
    check_no_name(y)
    if y is None:
        raise ValueError("rows need their labels to be judged by; the target y is None")
    rows = check_rows(model, X, missing="marginal")
    names = model.statistics_.schema_of_rows.feature_names
    return array_blocks(rows, y, sample_weight, names, missing=missing_for(model, "raise"))


def _check_labels(model: Model, evaluation: Evaluation) -> None:
    """Raise ValueError if there were no rows, or none of a class that the model knows."""
    if not evaluation.n_rows:
        raise ValueError(f"there is nothing to evaluate: no row counts ({evaluation.n_dropped} dropped)")
    support = evaluation.support[np.searchsorted(evaluation.classes, model.known_labels)]
    if not support.any():
        unknown = np.setdiff1d(evaluation.classes, model.known_labels)
        raise ValueError(
            "no row is of a class that the model knows. "
            f"It knows {listed(model.known_labels.tolist())}; "
            f"the labels are {listed(unknown.tolist())}. Is this the target?"
        )
