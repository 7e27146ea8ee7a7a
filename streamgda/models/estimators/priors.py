"""Prior probabilities of the classes: the parameter `priors`, or their shares of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.wording import listed, named
from streamgda.statistics.covariances import Array

_LABELS = (bool, int, float, str)


def priors_of(model: Any, classes: Labels, weights: Array) -> Array:
    """The prior probabilities of classes with these weights, by the parameter `priors` of a model.

    None stands for the share of each class in the total weight. Priors by label, and those of a model to
    which classes were announced, are scaled so that those of the classes seen so far sum to 1. Models that
    renormalise priors scale all priors to this sum.

    Raises
    ------
    ValueError
        If the priors are not such probabilities.
    """
    priors = model.priors
    if priors is None:
        shares: Array = weights / weights.sum()
        return shares
    is_by_label = isinstance(priors, Mapping)
    known = classes if is_by_label else model.with_announced(classes)
    shares = _numbers(_of_classes(priors, classes.tolist()) if isinstance(priors, Mapping) else priors)
    if shares.shape != known.shape:
        raise ValueError(
            "Number of priors must match number of classes, of which there are "
            f"{len(known)}: {listed(known.tolist())}; priors have shape {shares.shape}"
            ". Where classes may appear later, give priors by label, as a dict; "
            "statistics_.drop_class(label) forgets a class"
        )
    if not model._renormalises_priors and not is_by_label and not sum_to_one(shares):
        raise ValueError(f"The sum of the priors should be 1. It is {shares.sum():g}; got {shares.tolist()}")
    if not (shares >= 0).all() or not shares.any():
        subject = "priors" if model._renormalises_priors else "Priors"  # both words as in scikit-learn
        raise ValueError(f"{subject} must be non-negative. One must be above 0; got {shares.tolist()}")
    if len(known) > len(classes):
        shares = shares[np.searchsorted(known, classes)]
        if not shares.any():
            raise ValueError(f"of the classes seen, {listed(classes.tolist())}, none has a prior above 0")
    scaled: Array = shares / shares.sum()
    return scaled


def sum_to_one(priors: ArrayLike | Mapping[Any, float]) -> bool:
    """Whether priors sum to 1, up to 10⁻⁵."""
    values = list(priors.values()) if isinstance(priors, Mapping) else priors
    return bool(np.isclose(_numbers(values).sum(), 1))


def by_texts(priors: Mapping[Any, float]) -> dict[str, float]:
    """Priors by the texts of their labels."""
    return {_text(label): prior for label, prior in priors.items()}


def in_pairs(priors: Mapping[Any, float]) -> list[list[Any]]:
    """Pairs of a label and its prior, for JSON. Labels of NumPy types become labels of Python."""
    plain = [(_plain(label), prior) for label, prior in priors.items()]
    return [[label if isinstance(label, _LABELS) else _text(label), prior] for label, prior in plain]


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _text(label: Any) -> str:
    """A label as text, the same for labels of NumPy and Python. Whole numbers are written as integers."""
    plain = _plain(label)
    if isinstance(plain, bool):
        return str(plain).lower()  # as in JSON
    return str(int(plain) if isinstance(plain, float) and plain.is_integer() else plain)


def _of_classes(priors: Mapping[Any, float], classes: Iterable[Any]) -> list[Any]:
    """The priors of these classes. In older saved models, the labels of priors are texts.

    Raises
    ------
    ValueError
        If a class has no prior.
    """
    by_text = by_texts(priors)
    values = [priors.get(label, by_text.get(_text(label))) for label in classes]
    for label, prior in zip(classes, values, strict=True):
        if prior is None:
            raise ValueError(
                f"priors has none for class {named(label)}, which has appeared: add it, or forget the class "
                f"by statistics_.drop_class({label!r})"
            )
    return values


def _numbers(priors: ArrayLike) -> Array:
    try:
        return np.array(priors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"priors must be numbers, one for each class; got {priors!r}") from error
