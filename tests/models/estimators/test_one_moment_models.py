"""Models that threads share or that are interrupted: answers are of one moment, and changes are whole."""

import copy
import pickle
import re
import sys
import threading
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    from_bytes,
)
from streamgda.models.estimators import ESTIMATORS, estimator_named
from tests.interrupted import check_interruptions
from tests.statistics.test_one_moment import learning

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
    """Threads that take turns as often as they can."""
    before, threads = sys.getswitchinterval(), [threading.Thread(target=work, daemon=True) for work in works]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    finally:
        sys.setswitchinterval(before)
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


SHARED = [
    GaussianNB(),
    LinearDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(reg_param=0.01),
    GaussianDiscriminantAnalysis(covariance_model="EEV"),
]


@pytest.mark.slow_cases("Gaussian", "Linear")
@pytest.mark.parametrize("model", SHARED, ids=lambda model: type(model).__name__)
def test_threads_that_learn_together_lose_no_row(model):
    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 3 if i < 40 else 4, 40) for i in range(80)]  # a class appears late
    batches = [(rng.normal(size=(40, 4)) + y[:, None], y) for y in labels]

    def learn(learner, some):
        for batch in some:
            learner.partial_fit(*batch)

    for _ in range(5):
        shared, alone = clone(model), clone(model)
        in_threads(*(partial(learn, shared, batches[part::4]) for part in range(4)))
        learn(alone, batches)
        assert shared.statistics_.counts.tolist() == alone.statistics_.counts.tolist()
        assert shared.statistics_.allclose(alone.statistics_)


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


# How a member is read whose answer is not that of the attribute, or of a call with the rows.
CALLS = {
    "boundary": lambda model: model.boundary(0, 1),
    "labels_of": lambda model: model.labels_of(model.statistics_),
    "merge": lambda model: type(model)().merge(model),
    "predict_set": lambda model: model.predict_set(X, 0.5),
    "required_statistics": lambda model: model.required_statistics(),
    "rules_for": lambda model: None,  # of a class
    "save": lambda model: from_bytes(model.to_bytes()),
    "snapshot": lambda model: model.snapshot(),
    "sample": lambda model: model.sample(3, random_state=0),
    "score": lambda model: model.score(X, Y),
    "typical_row": lambda model: model.typical_row(),
    "to_bytes": lambda model: from_bytes(model.to_bytes()),
    "to_sklearn": lambda model: model.to_sklearn(),
    "to_sql": lambda model: model.to_sql("rows"),
    "with_announced": lambda model: model.with_announced(model.classes_),
    "class_statistics": lambda model: model.class_statistics(),
    "__getstate__": lambda model: pickle.loads(pickle.dumps(model)),
    "__deepcopy__": copy.deepcopy,
}
CHANGES = re.compile(
    "fit|partial_fit|calibrate|fit_transform|from_.*|set_.*|get_metadata_routing|draw_centers"
)


def members(kind):
    own = {name for name in dir(kind) if name[0] != "_" and not CHANGES.fullmatch(name)}
    return sorted((own | {"__getstate__", "__deepcopy__"}) - {*kind().get_params()})


def answer(model, name):
    """What can be seen of a model by a member, or why it has none."""
    try:
        if name in CALLS:
            return plain(CALLS[name](model))
        value = getattr(model, name)
        return plain(value(X) if callable(value) and not isinstance(value, type) else value)
    except (AttributeError, ValueError, NotImplementedError) as error:
        return str(error)


def plain(value):
    if hasattr(value, "predict_proba"):
        return plain(value.predict_proba(X))
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return plain(list(value.items()))
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.digest() if hasattr(value, "digest") else re.sub(" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.slow  # each member in turn
@pytest.mark.parametrize("kind", MODELS)
def test_whatever_is_read_beside_a_learning_thread_is_of_one_moment(kind):
    """Before or after a batch, in which another class appears."""
    before = kind().partial_fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in members(kind):
            model, after = copy.deepcopy(before), copy.deepcopy(before).partial_fit(X[::-1] * 2, Y * 2)
            moments = [answer(copy.deepcopy(before), name), answer(after, name)]
            batches = iter([(X[::-1] * 2, Y * 2)])
            done = threading.Event()

            def learn(model=model, batches=batches, done=done):
                for batch in batches:
                    model.partial_fit(*batch)
                done.set()

            with learning(learn):
                while not done.is_set():
                    assert answer(model, name) in moments, name
            assert answer(model, name) == moments[1], name


def look(model):
    learnt = model.__dict__.get("statistics_")
    types = getattr(model, "n_features_in_", None), model._types, model._learnt_whole
    announced = None if model._announced is None else model._announced.tolist()
    return None if learnt is None else (learnt.counts.tolist(), learnt.means.tolist()), types, announced


def fitted():
    return GaussianNB().fit(X.astype("float32"), Y)


@pytest.mark.slow_cases("first", "merge", "fit")
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


@pytest.mark.slow  # each kind of model
@pytest.mark.parametrize("kind", MODELS)
def test_each_kind_of_model_learns_all_of_a_batch_or_nothing(kind):
    def learnt():
        return kind().partial_fit(X, Y)

    other = learnt().partial_fit(X[::-1] * 2, Y * 2)  # of the same map, if the first batch fixes one
    check_interruptions(learnt, lambda model: model.partial_fit(X[::-1] * 2, Y * 2, [0, 1, 2]), look, step=31)
    check_interruptions(learnt, lambda model: model.merge(other), look, step=31)
    check_interruptions(learnt, lambda model: model.fit(X * 2, Y + 3), look, step=499)
