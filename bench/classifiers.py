"""Mixtures beside the best known classifiers: error, log loss, seconds, size, and what learning needs.

Run as ``python -m bench.classifiers``. The datasets are those of `bench.models`, with at most 4,000 rows to
test. "MDA" is `MixtureDiscriminantAnalysis`. A search of five folds chooses its number of subclasses by log
loss. "MDA, T" has the temperature of the held-out rows besides. The parameters of scikit-learn's classifiers
are chosen by three folds of at most 4,000 rows, by log loss; those of SVC and k-NN by accuracy.
`CalibratedClassifierCV` gives SVC probabilities. "GMM" is a `GaussianMixture` of scikit-learn for each class.
river's classifiers learn row by row. Log losses are clipped at ln eps, as `evaluate` does. Seconds are those
of the processor, with one thread; they include the choice of parameters.
"""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable
from typing import Any

from bench import report
from bench.arguments import parser_of
from bench.contest import limit_threads

limit_threads(1)

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tqdm import tqdm

from bench.models import Split, splits
from streamgda import (
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsSearchCV,
)

CHOSEN_ON = 4_000  # rows, of peers
SUBCLASSES = [1, 2, 4, 8, 12, 16]


class ClassMixtures(ClassifierMixin, BaseEstimator):
    """A `GaussianMixture` for each class."""

    def __init__(self, n_components: int = 1) -> None:
        self.n_components = n_components

    def fit(self, X: np.ndarray, y: np.ndarray) -> ClassMixtures:
        """Fit a mixture to the rows of each class, of at most one component for twenty rows."""
        self.classes_, counts = np.unique(y, return_counts=True)
        numbers = np.clip(counts // 20, 1, self.n_components)
        self.mixtures_ = [
            GaussianMixture(int(n), reg_covar=1e-4, random_state=0).fit(X[y == k])
            for k, n in zip(self.classes_, numbers, strict=True)
        ]
        self.log_priors_ = np.log(counts / counts.sum())
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """The posterior probabilities."""
        joint = np.column_stack([one.score_samples(X) for one in self.mixtures_]) + self.log_priors_
        ratios = np.exp(joint - joint.max(axis=1, keepdims=True))
        return ratios / ratios.sum(axis=1, keepdims=True)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The most probable classes."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Streamed(ClassifierMixin, BaseEstimator):
    """A classifier of river, which learns row by row."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def fit(self, X: np.ndarray, y: np.ndarray) -> Streamed:
        """Learn the rows once, in a random order."""
        self.classes_, self.model_ = np.unique(y), self.make()
        for row in np.random.default_rng(0).permutation(len(y)):
            self.model_.learn_one(dict(enumerate(X[row].tolist())), int(y[row]))
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """The posterior probabilities."""
        found = [self.model_.predict_proba_one(dict(enumerate(row))) for row in X.tolist()]
        return np.array([[one.get(k, 0.0) for k in self.classes_.tolist()] for one in found])


class Searched(ClassifierMixin, BaseEstimator):
    """An estimator whose parameters are chosen on some of the rows."""

    def __init__(self, estimator: Any, grid: dict[str, list[Any]], scoring: str, calibrates: bool) -> None:
        self.estimator, self.grid = estimator, grid
        self.scoring, self.calibrates = scoring, calibrates

    def fit(self, X: np.ndarray, y: np.ndarray) -> Searched:
        """Choose, and fit to all the rows."""
        some = np.random.default_rng(0).permutation(len(y))[:CHOSEN_ON]
        chosen = make_pipeline(StandardScaler(), clone(self.estimator))
        if self.grid:
            step = chosen.steps[-1][0]
            grid = {f"{step}__{name}": values for name, values in self.grid.items()}
            chosen = GridSearchCV(chosen, grid, scoring=self.scoring, cv=3, refit=False).fit(X[some], y[some])
            chosen = make_pipeline(StandardScaler(), clone(self.estimator)).set_params(**chosen.best_params_)
        self.model_ = (CalibratedClassifierCV(chosen, cv=3) if self.calibrates else chosen).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """The posterior probabilities."""
        return self.model_.predict_proba(X)


def _mixtures(**params: Any) -> StatisticsSearchCV:
    grid = {"subclasses": SUBCLASSES}
    return StatisticsSearchCV(MixtureDiscriminantAnalysis(), grid, scoring="neg_log_loss", **params)


def _searched(estimator: Any, scoring: str = "neg_log_loss", calibrates: bool = False, **grid: Any) -> Any:
    return lambda: Searched(estimator, grid, scoring, calibrates)


def _forest() -> Any:
    from river.forest import ARFClassifier

    return ARFClassifier(n_models=10, seed=0)


def _tree() -> Any:
    from river.tree import HoeffdingTreeClassifier

    return HoeffdingTreeClassifier()


CLASSIFIERS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "LDA": (LinearDiscriminantAnalysis, "1", "yes"),
    "QDA": (QuadraticDiscriminantAnalysis, "1", "yes"),
    'QDA, pooling="bayes"': (lambda: QuadraticDiscriminantAnalysis(pooling="bayes"), "1", "yes"),
    "MDA": (_mixtures, "3", "yes"),
    "MDA, T": (lambda: _mixtures(calibrate="temperature"), "3", "yes"),
    "SVC (RBF)": (_searched(SVC(), "accuracy", True, C=[1, 10, 100], gamma=["scale", 0.1]), "many", "no"),
    "k-NN": (_searched(KNeighborsClassifier(), "accuracy", n_neighbors=[1, 3, 7, 15, 31]), "1, kept", "no"),
    "HistGradientBoosting": (
        _searched(HistGradientBoostingClassifier(random_state=0), learning_rate=[0.05, 0.15]),
        "many",
        "no",
    ),
    "RandomForest": (
        _searched(RandomForestClassifier(200, random_state=0), max_features=["sqrt", 0.5]),
        "many",
        "no",
    ),
    "LogisticRegression": (_searched(LogisticRegression(max_iter=500), C=[0.1, 1, 10, 100]), "many", "no"),
    "MLP": (
        _searched(
            MLPClassifier((128,), early_stopping=True, random_state=0), alpha=[1e-4, 1e-2], max_iter=[200]
        ),
        "many",
        "yes",
    ),
    "GMM": (_searched(ClassMixtures(), n_components=SUBCLASSES), "many", "no"),
    "river HoeffdingTree": (lambda: Streamed(_tree), "1", "yes"),
    "river ARF": (lambda: Streamed(_forest), "1", "yes"),
}


def _row(name: str, split: Split) -> tuple[str, ...]:
    make, reads, learns_on = CLASSIFIERS[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            model = make().fit(split.X, split.y)
        except (ValueError, np.linalg.LinAlgError):
            return (name, *["–"] * 5, reads, learns_on)
        learnt = time.process_time()
        probabilities = np.nan_to_num(model.predict_proba(split.X_test))
        predicted = time.process_time()
    truth = np.searchsorted(model.classes_, split.y_test)
    of_truth = probabilities[np.arange(len(truth)), truth]
    log_loss = -np.log(np.maximum(of_truth, np.finfo(float).eps)).mean()
    kept = getattr(model, "best_estimator_", model)
    return (
        name,
        f"{(probabilities.argmax(axis=1) != truth).mean():.4f}",
        f"{log_loss:.3f}",
        f"{learnt - start:.2f}",
        f"{predicted - learnt:.2f}",
        f"{len(pickle.dumps(kept)) / 1e6:.2f}",
        reads,
        learns_on,
    )


def text(most: int, tested: int) -> str:
    """A table for each dataset."""
    headers = ["", "error", "log loss", "s to learn", "s to predict", "MB", "reads", "learns on"]
    tables = []
    for name, (whole, *_) in splits(1, most):
        some = np.random.default_rng(0).permutation(len(whole.y_test))[:tested]
        split = Split(whole.X, whole.y, whole.X_test[some], whole.y_test[some])
        rows = [_row(classifier, split) for classifier in tqdm(CLASSIFIERS, desc=name, leave=False)]
        title = f"{name}, {len(split.y):,} rows to learn from, {len(split.y_test):,} to test"
        tables.append(f"{title}:\n\n{report.table(headers, rows)}")
    return "\n\n".join(tables)


def main() -> None:
    """Measure and keep the tables."""
    options = parser_of(__doc__, most=20_000, tested=4_000).parse_args()
    title = f"## bench.classifiers: at most {options.most:,} rows to learn from"
    report.publish(
        "classifiers", f"{title}\n\n{text(options.most, options.tested)}", keep=not options.print_only
    )


if __name__ == "__main__":
    main()
