"""An evaluation that threads share is read at one moment; a change that is interrupted is done or undone."""

import copy
import pickle
import threading
import time
from itertools import count

import numpy as np
import pytest

from streamgda import Evaluation
from tests.interrupted import check_interruptions
from tests.statistics.test_one_moment import learning

Y = ["a", "a", "b", "c"]
SCORES = np.log([[0.8, 0.1, 0.1], [0.3, 0.5, 0.2], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]])
CLASSES = ["a", "b", "c"]


def evaluation(n=1):
    made = Evaluation()
    for _ in range(n):
        made.update(Y, SCORES, CLASSES)
    return made


ONE = evaluation()


def shares(counts):
    return counts / counts.sum() * 4


READS = {
    "confusion_matrix": lambda e: shares(e.confusion_matrix),
    "accuracy": lambda e: e.accuracy,
    "top_k_accuracy": lambda e: e.top_k_accuracy(2),
    "precision": lambda e: e.precision,
    "recall": lambda e: e.recall,
    "f1": lambda e: e.f1,
    "log_loss": lambda e: round(e.log_loss, 12),
    "log_loss_at": lambda e: round(e.log_loss_at(2.0), 12),
    "brier_score": lambda e: round(e.brier_score, 12),
    "best_temperature": lambda e: round(e.best_temperature, 9),
    "roc_auc": lambda e: e.roc_auc,
    "average_precision": lambda e: e.average_precision.round(12),
    "roc_curve": lambda e: np.concatenate(e.roc_curve("a")),
    "precision_recall_curve": lambda e: np.concatenate(e.precision_recall_curve("b")),
    "calibration_curve": lambda e: np.concatenate(e.calibration_curve("c")).round(12),
    "support": lambda e: shares(e.support),
    "weight": lambda e: e.weight % 4,
    "average_precision_error": lambda e: e.average_precision_error,
    "roc_auc_error": lambda e: e.roc_auc_error,
    **{
        name: lambda e, name=name: np.nan_to_num(getattr(e, name), nan=-1)
        for name in ("coverage", "class_coverage", "mean_set_size")
    },
    "conformal_quantile": lambda e: round(e.conformal_quantile(0.5), 12),
    "mean_calibration_curve": lambda e: np.concatenate(e.mean_calibration_curve()).round(12),
    "to_frame": lambda e: e.to_frame().drop(columns="support").to_numpy().round(12),
    "to_dict": lambda e: [e.to_dict()["accuracy"], round(e.to_dict()["log_loss"], 12)],
    "str": lambda e: str(e).split("accuracy", 1)[1].split("\n")[0],
    "repr": lambda e: repr(e).split("accuracy")[1],
    "pickle": lambda e: counts_of(pickle.loads(pickle.dumps(e))),
    "deepcopy": lambda e: counts_of(copy.deepcopy(e)),
    "copy": lambda e: counts_of(e.copy()),
    "bytes": lambda e: counts_of(Evaluation.from_bytes(e.to_bytes())),
    "sum": lambda e: counts_of(e + ONE) and counts_of(ONE + e) and counts_of(sum([e, e])),
    "merge": lambda e: counts_of(Evaluation().merge(e)),
    "equal": lambda e: e == e.copy() or True,
}


def counts_of(read):
    """What must agree in a whole evaluation: rows, both kinds of weights, and each class."""
    weight = read.confusion_matrix.sum()
    assert read.n_rows == weight
    assert all(scored.weights.sum() == weight for scored in read._scores)
    assert (read._calibration[:, 2].sum(axis=1) == weight).all()
    return True


OTHERWISE = {"add_coded", "update", "decay", "save", "load", "from_bytes", "to_bytes", "copy"}


def test_whatever_can_be_read_is_read_beside_a_thread():
    own = {name for name in dir(Evaluation) if not name.startswith("_")}
    assert own <= READS.keys() | OTHERWISE


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_is_read_beside_a_thread_that_adds_rows_is_of_one_moment(read):
    shared = evaluation()
    expected = read(copy.deepcopy(shared))
    with learning(lambda: shared.update(Y, SCORES, CLASSES).merge(ONE)):
        for _ in range(10):
            assert np.array_equal(read(shared), expected)


def test_threads_that_add_rows_to_one_evaluation_lose_none():
    shared, n_merged = Evaluation(), count()

    def add():
        next(n_merged)
        shared.merge(ONE)

    with learning(add, add, add):
        time.sleep(0.02)
    assert shared.n_rows == next(n_merged) * len(Y)
    assert counts_of(shared)


def test_two_evaluations_that_are_added_to_each_other_do_not_wait_for_ever():
    first, second = evaluation(), evaluation()

    def add(one, other):
        for _ in range(5):
            one.merge(other)

    threads = [threading.Thread(target=add, args=pair) for pair in ((first, second), (second, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


@pytest.mark.slow  # each line in turn
@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.update(Y, SCORES, CLASSES, [1.0, 2.0, 0.5, 1.0]),
        lambda e: e.update(["b", "d"], np.log([[0.5, 0.5], [0.9, 0.1]]), ["a", "d"]),
        lambda e: e.merge(Evaluation().update(["d"], [[0.0, -1.0]], ["a", "d"])),
        lambda e: e.decay(0.5),
    ],
    ids=["update", "new class", "merge", "decay"],
)
def test_a_change_that_is_interrupted_at_any_line_is_done_or_undone(change):
    assert check_interruptions(evaluation, change, copy.deepcopy) > 10


def test_a_change_that_ends_in_an_error_is_undone():
    changed = evaluation()
    for wrong in (
        lambda: changed.merge(Evaluation().update([1], [[0.0, -1.0]], [1, 2])),
        lambda: changed.update([1], [[0.0, -1.0]], [1, 2]),
        lambda: changed.decay(2),
    ):
        with pytest.raises((ValueError, TypeError)):
            wrong()
        assert changed == ONE
