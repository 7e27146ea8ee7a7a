"""What functions and displays read of a state, model or evaluation that learns meanwhile is of one moment."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import (
    AdaptiveConformalInference,
    ClassStatistics,
    Evaluation,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    drift,
    estimate_priors,
    evaluate,
    predict_dataset,
    scan_arrow,
)
from streamgda.diagnostics import box_m, manova
from streamgda.models.gaussians.components import deficient_features, singular_features, weighted_offsets
from streamgda.plotting import (
    CategoryEffectDisplay,
    ContributionsDisplay,
    DecisionRegionsDisplay,
    LinearProjectionDisplay,
)
from tests.statistics.test_one_moment import learning

pd = pytest.importorskip("pandas")
plt = pytest.importorskip("matplotlib.pyplot")

STEPS = 16
RNG = np.random.default_rng(5)


def batch(i):
    """Rows whose means, shares and covariances are others in each batch, and a class that comes late."""
    y = np.r_[0, 1, 1, RNG.integers(0, 2 if i < STEPS // 2 else 3, 9)]
    return RNG.normal(size=(12, 3)) * (1 + i % 3) + i * y[:, None] / 9, y


BATCHES = [batch(i) for i in range(STEPS)]
FIRST = ClassStatistics().update(*BATCHES[0]).update(*BATCHES[1])


def collinear(X):
    return np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(X))])


def scored(evaluation, i):
    X, y = BATCHES[i]
    return evaluation.update(y, np.column_stack([-X[:, 0], X[:, 1], X[:, 2] - 3]), [0, 1, 2])


def table(X):
    return pd.DataFrame({"x": X[:, 0], "kind": np.where(X[:, 1] > 0.5, "high", "low")})


LEARNERS = {  # what learns a batch, from nothing
    "full": (ClassStatistics, lambda state, i: state.update(*BATCHES[i])),
    "collinear": (ClassStatistics, lambda state, i: state.update(collinear(BATCHES[i][0]), BATCHES[i][1])),
    "evaluation": (Evaluation, scored),
    "lda": (LinearDiscriminantAnalysis, lambda model, i: model.partial_fit(*BATCHES[i])),
    "qda": (
        lambda: QuadraticDiscriminantAnalysis(reg_param=0.1),
        lambda model, i: model.partial_fit(*BATCHES[i]),
    ),
    "categories": (GaussianNB, lambda model, i: model.partial_fit(table(BATCHES[i][0]), BATCHES[i][1])),
}


def drawn(display, *names):
    plt.close("all")
    return [getattr(display, name) for name in names]


READS = {
    "manova": ("full", lambda s: str(manova(s))),
    "box_m": ("full", lambda s: box_m(s).log_determinants),
    "drift": ("full", lambda s: str(drift(FIRST, s))),
    "drift backwards": ("full", lambda s: str(drift(s, FIRST))),
    "weighted_offsets": ("full", weighted_offsets),
    "singular_features": ("collinear", lambda s: singular_features(s, 1, 1e-8)),
    "deficient_features": ("collinear", lambda s: deficient_features(s, np.eye(5), 1e-8)),
    "conformal_quantile": ("evaluation", lambda e: e.conformal_quantile(0.7)),
    "conformal_quantile by class": ("evaluation", lambda e: e.conformal_quantile(0.7, by="class")),
    "adaptive quantile": ("evaluation", AdaptiveConformalInference(0.7, by="class").quantile),
    "projection": (
        "lda",
        lambda m: drawn(LinearProjectionDisplay.from_estimator(m), "means", "classes", "xlabel"),
    ),
    "regions": (
        "qda",
        lambda m: drawn(
            DecisionRegionsDisplay.from_estimator(m, BATCHES[0][0], grid_resolution=9),
            *("means", "covariances", "response", "classes"),
        ),
    ),
    "contributions": (
        "categories",
        lambda m: drawn(
            ContributionsDisplay.from_estimator(m, table(BATCHES[0][0]), kind="summary", label=0),
            *("values", "base", "names", "labels"),
        ),
    ),
    "category effects": (
        "categories",
        lambda m: drawn(CategoryEffectDisplay.from_estimator(m), "effects", "names", "classes"),
    ),
}


@pytest.mark.slow  # each moment is computed, or drawn, alone
@pytest.mark.filterwarnings("ignore:class .* gets no posterior")
@pytest.mark.parametrize(("kind", "read"), READS.values(), ids=READS)
def test_what_is_read_beside_a_learning_thread_is_that_of_some_moment(kind, read):
    make, learn = LEARNERS[kind]

    def made():
        learner = make()
        learn(learner, 0)
        learn(learner, 1)
        return learner

    def answer(learner):
        try:
            return repr(read(learner))
        except np.linalg.LinAlgError as error:  # of a class with few rows
            return str(error)

    alone, moments = made(), []
    for i in range(2, STEPS):
        moments.append(answer(alone))
        learn(alone, i)
    moments.append(answer(alone))

    shared, ended = made(), threading.Event()
    coming = iter(range(2, STEPS))

    def learn_next():
        i = next(coming, None)
        if i is None:
            ended.set()
        else:
            learn(shared, i)
        ended.wait(0.001)

    with learning(learn_next):
        while not ended.is_set():
            assert answer(shared) in moments
    assert answer(shared) == moments[-1]


@pytest.mark.parametrize("call", ["evaluate", "predict_dataset", "estimate_priors"])
def test_all_rows_are_scored_by_what_the_model_had_learnt_at_the_call(call, tmp_path):
    model, (X, y) = GaussianNB().fit(*BATCHES[0]), BATCHES[1]
    batches = [pa.record_batch({"a": X[i:, 0], "b": X[i:, 1], "c": X[i:, 2], "y": y[i:]}) for i in range(3)]

    def rows(meanwhile):
        """A stream during which something happens between the batches."""
        return pa.RecordBatchReader.from_batches(batches[0].schema, (meanwhile() or b for b in batches))

    def scores(stream, place):
        source = scan_arrow(stream, "y")
        if call == "evaluate":
            return evaluate(model, source).log_loss
        if call == "estimate_priors":
            return estimate_priors(model, source)
        predict_dataset(model, source, tmp_path / place, columns=["probabilities"])
        return pq.read_table(tmp_path / place)

    expected = scores(rows(lambda: None), "quiet")
    assert str(scores(rows(lambda: model.partial_fit(*BATCHES[5]) and None), "beside")) == str(expected)
    assert model.statistics_.n_rows > 24
