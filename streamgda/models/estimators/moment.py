"""Models at one moment: what is read of them belongs to the same rows, while other threads learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

from streamgda.models.estimators.reading import check_has_learnt
from streamgda.statistics.base import Statistics

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def at_one_moment(model: Any) -> Iterator[Statistics]:
    """Hold the lock of the statistics of a model. Meanwhile no other thread adds rows or replaces them.

    A model that has learnt no rows raises NotFittedError.
    """
    check_has_learnt(model)
    while True:
        statistics: Statistics = model.statistics_
        with statistics.lock:
            if model.statistics_ is statistics:
                yield statistics
                return


def of_one_moment(method: F) -> F:
    """Decorate a method of a model that reads more than once what it has learnt, so that nothing changes."""

    @wraps(method)
    def read(model: Any, *args: Any, **kwargs: Any) -> Any:
        with at_one_moment(model):
            return method(model, *args, **kwargs)

    return cast("F", read)
