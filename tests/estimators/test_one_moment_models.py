"""Models that threads share or that are interrupted: answers are of one moment, and changes are whole."""

import copy
import pickle
import threading
import warnings

import numpy as np
import pytest

from streamgda import GaussianNB, from_bytes
from streamgda.estimators import ESTIMATORS, estimator_named
from tests.interrupted import check_interruptions

MODELS = [estimator_named(name) for name in ESTIMATORS]
RNG = np.random.default_rng(0)
Y = np.arange(24) % 2
X = RNG.normal(size=(24, 2)) + 3 * Y[:, None]


class MadeByLearning:
    """Rows that are made while another model learns."""

    def __init__(self, model, rows):
        self.model, self.rows, self.shape = model, rows, rows.shape

    def __array__(self, dtype=None, copy=None):
        self.model.partial_fit(X, Y)
        return self.rows


def in_threads(*works):
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"


@pytest.mark.parametrize("missing", ["raise", "marginal"])
def test_models_that_feed_each_other_do_not_wait(missing):
    one, other = GaussianNB(missing=missing), GaussianNB(missing=missing)

    def feed(model, source):
        for _ in range(20):
            model.partial_fit(MadeByLearning(source, X), Y)
            model.merge(source)

    in_threads(lambda: feed(one, other), lambda: feed(other, one))
    assert one.statistics_.counts.tolist()[0] == one.statistics_.counts.tolist()[1]


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_travels_while_it_learns_its_first_batch(kind):
    model = kind()
    twins = []

    class Rows(MadeByLearning):
        def __array__(self, dtype=None, copied=None):
            twins.extend([pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)])
            return self.rows

    model.partial_fit(Rows(None, X), Y)
    assert model.statistics_.n_rows == 24
    assert not any(hasattr(twin, "statistics_") for twin in twins)


def reads_of(model):
    """What can be read of a model, by name: all its attributes, and the methods that read more than one."""
    kind = type(model)
    names = [n for n in dir(kind) if n.endswith("_") and not n.startswith("_") and n != "statistics_"]
    methods = "predict_proba", "predict", "mahalanobis", "decision_function", "score_samples", "transform"
    return {
        **{name: lambda name=name: getattr(model, name, None) for name in names},
        **{name: lambda name=name: getattr(model, name)(X) for name in methods if hasattr(kind, name)},
        "sample": lambda: model.sample(3, random_state=0),
        "save": lambda: from_bytes(model.to_bytes()).predict(X),
        "pickle": lambda: pickle.loads(pickle.dumps(model)).predict(X),
        "merge": lambda: kind().merge(model).predict(X),
        "to_sklearn": getattr(model, "to_sklearn", dict),
    }


@pytest.mark.parametrize("kind", MODELS)
def test_whatever_is_read_beside_a_learning_thread_is_whole(kind):
    """With each batch another class appears."""
    model, ended, failures = kind().partial_fit(X, Y), threading.Event(), []

    def learn():
        for label in range(2, 30):
            if ended.is_set():
                return
            model.partial_fit(X + label, np.full(24, label))

    def read():
        for name, call in reads_of(model).items():
            try:
                call()
            except Exception as error:
                failures.append((name, error))
        ended.set()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        in_threads(learn, read, read)
    assert not failures, failures


def look(model):
    learnt = model.__dict__.get("statistics_")
    types = getattr(model, "n_features_in_", None), model._types, model._learnt_whole
    announced = None if model._announced is None else model._announced.tolist()
    return None if learnt is None else (learnt.counts.tolist(), learnt.means.tolist()), types, announced


def fitted():
    return GaussianNB().fit(X.astype("float32"), Y)


@pytest.mark.parametrize(
    ("make", "operate"),
    [
        (GaussianNB, lambda model: model.partial_fit(X, Y, classes=[0, 1, 2])),
        (GaussianNB, lambda model: model.fit(X, Y)),
        (GaussianNB, lambda model: model.merge(fitted())),
        (fitted, lambda model: model.partial_fit(X, Y, classes=[0, 1, 2])),
        (fitted, lambda model: model.merge(GaussianNB().partial_fit(X, Y, classes=[0, 1, 5]))),
        (fitted, lambda model: model.fit(X[:, :1], Y + 3)),
    ],
    ids=["first batch", "first fit", "first merge", "batch", "merge", "fit"],
)
def test_an_interruption_leaves_a_model_as_before_or_as_after(make, operate):
    check_interruptions(make, operate, look, step=5)
