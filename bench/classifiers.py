"""Ridge on random features and leaves beside the best known classifiers: accuracy, time, size and reads.

Run as ``python -m bench.classifiers``. The datasets are those of `bench.models`, with at most 20,000 rows to
test. Boosting and forests have their defaults, unless they are "chosen". Three folds of at most 4,000 rows
choose the parameters of these, of SVC and k-NN, by accuracy, and of logistic regression, by log loss;
`CalibratedClassifierCV` gives SVC probabilities. Five folds choose the subclasses of mixtures ("MDA"), and
their temperature. Log losses are clipped at ln eps, as `evaluate` does; the Brier score is Σ (p − y)² over
the classes. Times are those of the processor, with one thread; they include the choice of parameters.

The goals of a pass are of D = 2,000, and of rows in memory.
"""

from __future__ import annotations

import multiprocessing
import pickle
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any

from bench import report
from bench.arguments import parser_of
from bench.contest import Contender, contest, limit_threads

limit_threads(1)

import lightgbm
import numpy as np
import xgboost
from sklearn import linear_model
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tqdm import tqdm

from bench.models import Split, splits
from streamgda import (
    LeafClassifier,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
    RandomFeatures,
    RidgeClassifier,
    StatisticsSearchCV,
)
from streamgda.extensions.ridge.rule import MappedRows
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.required import Required

CHOSEN_ON = 4_000  # rows, of peers
FEW, SOME = 1_000, 20_000
FEWER_FEATURES = 5_000  # rows, below which `RandomFeatureClassifier` has the first size by default
LONG = 60  # seconds of a fit
WORSE = 0.003  # of error
TREES = ("Leaf", "RandomFeature", "HistGradient", "LightGBM", "XGBoost", "RandomForest", "ExtraTrees")
BLOCK = 4_096


def _ours(n: int) -> str:
    return f"RandomFeatureClassifier, D = {n:,}"


GOALS = (
    ("digits", _ours(1_000), 0.035, 0.13),
    ("shuttle", _ours(2_000), 0.002, 0.012),
    ("letter", _ours(2_000), 0.048, 0.17),
    ("letter", _ours(4_000), 0.031, 0.12),
    ("covtype, 400,000", _ours(2_000), 0.20, 0.58),
    ("covtype, 400,000", _ours(4_000), 0.17, 0.50),
    ("covtype, 400,000", "LeafClassifier", 0.060, 0.22),
    ("covtype, 20,000", "LeafClassifier", 0.176, np.inf),
)
CAPTION = """\
The rows to learn from are in the head. Figures are means: over {draws} splits of the first four datasets, \
and over {draws} orders of the rows of the others, with which samples, forests and folds differ. One order \
is measured of fits that take more than a minute and of those whose settings are chosen. Seconds are those \
of the processor, one thread. `RandomFeatureClassifier` has its defaults but for D, which is 1,000 below \
5,000 rows and 2,000 from there on by default. Three folds choose the settings of "chosen" trees. Peers \
that take minutes are left out where rows are many."""


class Searched(ClassifierMixin, BaseEstimator):
    """An estimator whose parameters are chosen on some of the rows."""

    def __init__(self, estimator: Any, grid: dict[str, list[Any]], scoring: str, calibrates: bool) -> None:
        self.estimator, self.grid = estimator, grid
        self.scoring, self.calibrates = scoring, calibrates

    def fit(self, X: np.ndarray, y: np.ndarray) -> Searched:
        """Choose, and fit to all the rows."""
        some = np.random.default_rng(0).permutation(len(y))[:CHOSEN_ON]
        chosen = make_pipeline(StandardScaler(), self.estimator)
        grid = {f"{chosen.steps[-1][0]}__{name}": values for name, values in self.grid.items()}
        search = GridSearchCV(chosen, grid, scoring=self.scoring, cv=3, refit=False).fit(X[some], y[some])
        chosen.set_params(**search.best_params_)
        self.model_ = (CalibratedClassifierCV(chosen, cv=3) if self.calibrates else chosen).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """The posterior probabilities."""
        return self.model_.predict_proba(X)


class Calibrated(RidgeClassifier):
    """A `RidgeClassifier` that is calibrated by some of the rows that it learns."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Calibrated:
        """Learn and calibrate."""
        some = np.random.default_rng(0).permutation(len(y))[:CHOSEN_ON]
        return super().fit(X, y).calibrate(X[some], y[some])


def _mixtures() -> StatisticsSearchCV:
    grid = {"subclasses": [1, 2, 4, 8, 12, 16]}
    return StatisticsSearchCV(
        MixtureDiscriminantAnalysis(), grid, scoring="neg_log_loss", calibrate="temperature"
    )


def _searched(estimator: Any, scoring: str, calibrates: bool = False, **grid: Any) -> Callable[[], Any]:
    return lambda: Searched(estimator, grid, scoring, calibrates)


@dataclass(frozen=True)
class Peer:
    """How a classifier is made, how often it reads the rows, and how many it can learn in some minutes."""

    make: Callable[[], Any]
    reads: str = "many"
    most: float = 50_000
    least: float = 0


SVC_GRID = {"C": [1, 10, 100], "gamma": ["scale", 0.1]}
SEARCHED = {
    "SVC (RBF)": _searched(SVC(), "accuracy", True, **SVC_GRID),
    "k-NN": _searched(KNeighborsClassifier(), "accuracy", n_neighbors=[1, 3, 7, 15, 31]),
    "LogisticRegression": _searched(
        linear_model.LogisticRegression(max_iter=500), "neg_log_loss", C=[0.1, 1, 10, 100]
    ),
    "ExtraTrees, chosen": _searched(
        ExtraTreesClassifier(300, random_state=0), "accuracy", max_features=["sqrt", 0.5, None]
    ),
    "LightGBM, chosen": _searched(
        lightgbm.LGBMClassifier(
            n_estimators=300, colsample_bytree=0.5, random_state=0, n_jobs=1, verbosity=-1
        ),
        "accuracy",
        learning_rate=[0.03, 0.1],
        num_leaves=[15, 63],
    ),
    "XGBoost, chosen": _searched(
        xgboost.XGBClassifier(n_estimators=300, colsample_bytree=0.5, random_state=0, n_jobs=1),
        "accuracy",
        learning_rate=[0.05, 0.2],
        max_depth=[6, 10],
    ),
}
CLASSIFIERS: dict[str, Peer] = {
    "LDA": Peer(LinearDiscriminantAnalysis, "1, merges", np.inf),
    'QDA, pooling="bayes"': Peer(lambda: QuadraticDiscriminantAnalysis(pooling="bayes"), "1, merges", np.inf),
    "MDA": Peer(_mixtures, "3, merges"),
    "RidgeClassifier, calibrated": Peer(Calibrated, "1, merges", np.inf),
    **{name: Peer(make, "1, kept" if name == "k-NN" else "many") for name, make in SEARCHED.items()},
    "scikit-learn RidgeClassifier": Peer(
        lambda: make_pipeline(StandardScaler(), linear_model.RidgeClassifier()), "1", np.inf
    ),
    "scikit-learn SGDClassifier": Peer(
        lambda: make_pipeline(StandardScaler(), linear_model.SGDClassifier(loss="log_loss", random_state=0)),
        most=np.inf,
    ),
    "LeafClassifier": Peer(LeafClassifier, "1, merges", np.inf),
    "RandomForest": Peer(lambda: RandomForestClassifier(random_state=0), most=np.inf),
    "HistGradientBoosting": Peer(lambda: HistGradientBoostingClassifier(random_state=0), most=np.inf),
    "LightGBM": Peer(lambda: lightgbm.LGBMClassifier(random_state=0, n_jobs=1, verbosity=-1), most=np.inf),
    "XGBoost": Peer(lambda: xgboost.XGBClassifier(random_state=0, n_jobs=1), most=np.inf),
}


@dataclass(frozen=True)
class Score:
    """What a classifier comes to on a split, and what it costs."""

    error: float
    log_loss: float
    brier: float
    seconds: float  # to learn
    microseconds: float  # to predict a row
    megabytes: float

    @property
    def accuracy(self) -> str:
        """What its predictions are worth, as a cell of a table."""
        numbers = (f"{one:.{d}f}" for one, d in ((self.error, 4), (self.log_loss, 3), (self.brier, 3)))
        return " / ".join(number.replace("nan", "–") for number in numbers)

    @property
    def size(self) -> str:
        """What its predictions are worth and how long it learns, as a cell of a table."""
        return f"{self.error:.4f} / {self.log_loss:.3f} / {self.seconds:.1f}"

    @property
    def cost(self) -> str:
        """What it takes, as a cell of a table."""
        return f"{self.seconds:.2f} / {self.microseconds:.0f} / {self.megabytes:.2f}"


def _score(make: Callable[[], Any], split: Split) -> Score | None:
    classes, y = np.unique(split.y, return_inverse=True)
    truth = np.searchsorted(classes, split.y_test)
    model = make()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            model.fit(split.X, y)
        except (ValueError, np.linalg.LinAlgError):
            return None
        learnt = time.process_time()
        has_probabilities = hasattr(model, "predict_proba")
        answers = model.predict_proba(split.X_test) if has_probabilities else model.predict(split.X_test)
        predicted = time.process_time()
    wrong, log_loss, brier = np.not_equal(answers, truth) if answers.ndim == 1 else None, np.nan, np.nan
    if wrong is None:
        probabilities = np.nan_to_num(answers)
        wrong = probabilities.argmax(axis=1) != truth
        of_truth = probabilities[np.arange(len(truth)), truth]
        log_loss = -np.log(np.maximum(of_truth, np.finfo(float).eps)).mean()
        brier = np.square(probabilities - np.eye(len(classes))[truth]).sum(axis=1).mean()
    return Score(
        float(wrong.mean()),
        float(log_loss),
        float(brier),
        learnt - start,
        (predicted - learnt) / len(truth) * 1e6,
        len(pickle.dumps(getattr(model, "best_estimator_", model))) / 1e6,
    )


def _datasets(most: int, tested: int, draws: int) -> dict[str, list[Split]]:
    """The splits of all datasets, by name; the largest one with few rows to learn from, too."""
    random, made = np.random.default_rng(0), {}
    for name, drawn in [*splits(draws, most), *splits(draws, min(most, SOME))]:
        different = drawn[:1] if drawn[0] is drawn[-1] else drawn
        learn = random.permutation(len(drawn[0].y))[:most]
        test = random.permutation(len(drawn[0].y_test))[:tested]
        if name == "covtype" or not any(one.startswith(name) for one in made):
            cut = [Split(one.X[learn], one.y[learn], one.X_test[test], one.y_test[test]) for one in different]
            made[f"{name}, {len(learn):,}"] = cut * (len(drawn) // len(cut))
    return made


# ---------------------------------------------------------------------- all classifiers on all datasets

Scores = dict[str, dict[str, Score | None]]

_DATASETS: dict[str, list[Split]] = {}  # which the processes inherit that are forked


def _measured(task: tuple[str, str]) -> Score | None:
    """The mean score of a classifier on the splits of a dataset, if it is to learn so many rows."""
    drawn, peer = _DATASETS[task[0]], CLASSIFIERS[task[1]]
    if not peer.least <= len(drawn[0].y) <= peer.most:
        return None
    scores = []
    for seed, split in enumerate(drawn):
        order = np.random.default_rng(seed).permutation(len(split.y))
        score = _score(peer.make, replace(split, X=split.X[order], y=split.y[order]))
        if score is None:
            return None
        scores.append(astuple(score))
        if drawn[0] is drawn[-1] and (task[1] in SEARCHED or score.seconds > LONG):
            break
    return Score(*np.mean(scores, axis=0).tolist())


def measure(processes: int) -> Scores:
    """The scores, by classifier and dataset; those that take long come first."""
    tasks = [
        (name, one)
        for name in sorted(_DATASETS, key=lambda name: -len(_DATASETS[name][0].y))
        for one in reversed(CLASSIFIERS)
    ]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        scores = dict(zip(tasks, tqdm(pool.imap(_measured, tasks), total=len(tasks)), strict=True))
    return {one: {name: scores[name, one] for name in _DATASETS} for one in CLASSIFIERS}


def _goals(scores: Scores) -> Iterator[tuple[str, str, str, str]]:
    for dataset, classifier, error, log_loss in GOALS:
        for name, found in scores.get(classifier, {}).items():
            if found is not None and name.startswith(dataset):
                met = found.error <= error and found.log_loss <= log_loss
                wanted = f"≤ {error}" + f" / {log_loss}" * (log_loss < np.inf)
                yield _goal(f"{name}, {classifier}", found.accuracy, wanted, met)
    for name, lda in scores["LDA"].items():
        ours = [one[name] for classifier, one in scores.items() if classifier.startswith("RandomFeature")]
        found = [one for one in ours if one is not None][-1]
        if lda is not None:
            met = found.error <= lda.error and found.log_loss <= lda.log_loss
            yield _goal(f"{name}, largest D, no worse than LDA", found.accuracy, f"≤ {lda.accuracy}", met)


def _goal(what: str, found: str, most: str, met: bool) -> tuple[str, str, str, str]:
    return what, found, most, "reached" if met else "not reached"


def _beside_trees(scores: Scores) -> str:
    """What random features of each size, and trees, are worth and cost on the datasets with many rows."""
    names = [name for name, drawn in _DATASETS.items() if len(drawn[0].y) > CHOSEN_ON]
    rows = [
        (one, *(score.size if (score := of[name]) is not None else "" for name in names))
        for one, of in scores.items()
        if one.startswith(TREES)
    ]
    return report.table(["error / log loss / seconds to learn", *names], rows)


def _beside_the_better(scores: Scores) -> tuple[str, list[tuple[str, str, str, str]]]:
    """The errors of leaves beside those of LightGBM and of random features, both by default; and goals."""
    sizes, rows, goals = [one for one in scores if one.startswith("RandomFeature")], [], []
    for name, leaves in scores["LeafClassifier"].items():
        usual = sizes[0] if len(_DATASETS[name][0].y) < FEWER_FEATURES else sizes[:2][-1]
        peers = scores["LightGBM"][name], scores[usual][name]
        if leaves is not None and (known := [one.error for one in peers if one is not None]):
            worse = leaves.error - min(known)
            errors = (f"{one.error:.4f}" if one is not None else "" for one in (leaves, *peers))
            rows.append((name, *errors, f"{worse:+.4f}", "yes" if worse <= WORSE else "no"))
            goal = _goal(f"{name}, leaves − the better", f"{worse:+.4f}", f"≤ {WORSE}", worse <= WORSE)
            goals.append(goal)
    head = ["error, by default", "LeafClassifier", "LightGBM", "RandomFeatureClassifier"]
    return report.table([*head, "leaves − the better", f"≤ {WORSE}"], rows), goals


def tables() -> tuple[str, str, report.Goals]:
    """What all classifiers are worth on all datasets, and what they cost."""
    scores, found = measure(2), []
    for title, cell in (
        ("error / log loss / Brier score", "accuracy"),
        ("seconds to learn / µs to predict a row / MB of the pickled model", "cost"),
    ):
        rows = [
            (one, CLASSIFIERS[one].reads, *(getattr(score, cell, "") for score in of.values()))
            for one, of in scores.items()
        ]
        found.append(report.table([title, "reads", *_DATASETS], rows))
    leaves, goals = _beside_the_better(scores)
    main_table = f"{found[0]}\n\n{_beside_trees(scores)}\n\n{leaves}"
    return main_table, found[1], report.Goals([*_goals(scores), *goals])


# ---------------------------------------------------------------------- a pass


def _rows(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 50))


def map_and_product(n: int, n_features: int) -> Callable[[], Any]:
    """The map of rows and the product of what it makes, in single precision, in blocks."""
    rows = _rows(n)
    features = RandomFeatures(n_features).fit(rows[:2_000])
    made = np.empty((BLOCK, features.n_outputs), np.float32)
    product = np.empty((features.n_outputs,) * 2, np.float32)

    def run() -> None:
        for start in range(0, n, BLOCK):
            piece = made[: len(rows[start : start + BLOCK])]
            features.write(rows[start : start + BLOCK], piece)
            np.matmul(piece.T, piece, out=product)

    return run


def a_pass(n: int, n_features: int, products: Any) -> Callable[[], Any]:
    """A pass over the rows in one thread."""
    rows, labels = _rows(n), np.arange(n) % 10
    rule = MappedRows(RandomFeatures(n_features).fit(rows[:2_000]), products=products)
    return lambda: empty_statistics(Required("tied"), rule=rule).update(rows, labels)


def of_pass(n: int, n_features: int, repeats: int) -> tuple[str, report.Goals]:
    """Times of a pass, and goals of its time and memory."""
    found = contest(
        [
            Contender("map and product in float32", map_and_product, (n, n_features)),
            Contender("pass in float32", a_pass, (n, n_features, "float32")),
            Contender("pass in float64", a_pass, (n, n_features, "float64")),
        ],
        repeats,
    ).values()
    bare, single, double = found
    n_outputs = RandomFeatures(n_features).fit(_rows(500)).n_outputs
    most = (2 * 8 * n_outputs**2 + 4 * BLOCK * n_outputs) / 1e6
    times = ", ".join(f"{one.name} {one.processor / n * 1e6:.0f}" for one in found)
    rows = [
        report.at_most("float32 ÷ (map + product)", single.processor / bare.processor, 1.25),
        report.at_most("float32 ÷ float64", single.processor / double.processor, 0.65),
        report.at_most(f"peak of a task ÷ (two states and a block: {most:.0f} MB)", single.peak / most, 1.0),
    ]
    return f"D = {n_features:,}, 50 columns; processor µs a row: {times}", report.Goals(rows)


def main() -> None:
    """Measure and keep the tables."""
    parser = parser_of(__doc__, most=400_000, tested=20_000, rows=12_000, repeats=3, draws=5)
    parser.add_argument("--features", type=int, nargs="*", default=[1_000, 2_000, 4_000])
    options = parser.parse_args()
    for n in options.features:
        make = partial(RandomFeatureClassifier, features=n)
        least = 0 if n == options.features[0] else FEW
        CLASSIFIERS[_ours(n)] = Peer(make, "1, merges", np.inf, least)
    _DATASETS.update(_datasets(options.most, options.tested, options.draws))
    passes = of_pass(options.rows, options.features[len(options.features) // 2], options.repeats)
    main_table, *details = tables()
    title, caption = f"at most {options.most:,} rows to learn from", CAPTION.format(draws=options.draws)
    report.publish("classifiers", title, main_table, caption, *details, *passes, keep=not options.print_only)


if __name__ == "__main__":
    main()
