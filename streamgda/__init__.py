"""Gaussian discriminant analysis for data that does not fit in memory or never stops coming.

- Describe data: `scan`, `scan_parquet`, `scan_arrow`, `scan_zarr`, `scan_dask`.
- Read it once: `accumulate` returns `ClassStatistics` or `ExactClassStatistics`; of rows in which features
  are missing, `IncompleteStatistics`; `Marginal` says how. `WindowedStatistics` holds the last batches of a
  stream, and `StatisticsLedger` the files of a dataset. `drift` compares two states.
- Fit and predict: `GaussianNB`, `LinearDiscriminantAnalysis`, `QuadraticDiscriminantAnalysis`,
  `GaussianDiscriminantAnalysis`, `MixtureDiscriminantAnalysis`, `RidgeClassifier`. `Categorical` says which
  columns have categories, and what models make of them. `load` reads what `save` wrote, and
  `load_metadata` where it comes from. `RandomFeatures` approximate kernels.
- Whole datasets: `predict_dataset` writes predictions. `evaluate` and `progressive_score` return an
  `Evaluation`. `estimate_priors` finds the shares of the classes in rows without labels.
- Choose and validate: `StatisticsSearchCV` searches for parameters in one read, or two;
  `cross_validate` and `learning_curve` score one model.

Displays are in `streamgda.plotting`, tests of statistics in `streamgda.diagnostics`. `show_versions` prints
what a report of a bug needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from streamgda.estimators import ESTIMATORS

if TYPE_CHECKING:
    from streamgda.categories.reading import Categorical
    from streamgda.edda.estimator import GaussianDiscriminantAnalysis
    from streamgda.estimators.lda import LinearDiscriminantAnalysis
    from streamgda.estimators.naive_bayes import GaussianNB
    from streamgda.estimators.qda import QuadraticDiscriminantAnalysis
    from streamgda.estimators.saved import from_bytes, load, load_metadata, load_model, load_statistics
    from streamgda.estimators.traps import DoubtfulModelWarning
    from streamgda.exact.state import ExactClassStatistics
    from streamgda.incomplete.policy import Marginal
    from streamgda.incomplete.state import IncompleteStatistics
    from streamgda.kernels.versions import show_versions
    from streamgda.ledger.drift import drift
    from streamgda.ledger.ledger import StatisticsLedger
    from streamgda.passes.accumulate import accumulate
    from streamgda.passes.progress import PassProgress
    from streamgda.ridge.classifier import RidgeClassifier
    from streamgda.ridge.features import RandomFeatures
    from streamgda.ridge.random import RandomFeatureClassifier
    from streamgda.scoring.evaluate import evaluate, progressive_score
    from streamgda.scoring.evaluation import Evaluation
    from streamgda.scoring.label_shift import estimate_priors
    from streamgda.scoring.predict import predict_dataset
    from streamgda.selection.search import StatisticsSearchCV
    from streamgda.selection.splitters import HashedKFold
    from streamgda.selection.validation import cross_validate, learning_curve
    from streamgda.sources.arrow import scan_arrow
    from streamgda.sources.dask import scan_dask
    from streamgda.sources.formats import scan
    from streamgda.sources.parquet import scan_parquet
    from streamgda.sources.zarr import scan_zarr
    from streamgda.statistics.floating.state import ClassStatistics
    from streamgda.statistics.window import WindowedStatistics
    from streamgda.subclasses.centers import SubclassCenters
    from streamgda.subclasses.clustering import Subclasses
    from streamgda.subclasses.mda import MixtureDiscriminantAnalysis

__all__ = [
    "Categorical",
    "ClassStatistics",
    "DoubtfulModelWarning",
    "Evaluation",
    "ExactClassStatistics",
    "GaussianDiscriminantAnalysis",
    "GaussianNB",
    "HashedKFold",
    "IncompleteStatistics",
    "LinearDiscriminantAnalysis",
    "Marginal",
    "MixtureDiscriminantAnalysis",
    "PassProgress",
    "QuadraticDiscriminantAnalysis",
    "RandomFeatureClassifier",
    "RandomFeatures",
    "RidgeClassifier",
    "StatisticsLedger",
    "StatisticsSearchCV",
    "SubclassCenters",
    "Subclasses",
    "WindowedStatistics",
    "accumulate",
    "cross_validate",
    "drift",
    "estimate_priors",
    "evaluate",
    "from_bytes",
    "learning_curve",
    "load",
    "load_metadata",
    "load_model",
    "load_statistics",
    "predict_dataset",
    "progressive_score",
    "scan",
    "scan_arrow",
    "scan_dask",
    "scan_parquet",
    "scan_zarr",
    "show_versions",
]

__docformat__ = "numpy"

__version__ = "0.3.0.dev0"

_HOME_OF = {
    "Categorical": "streamgda.categories.reading",
    "ClassStatistics": "streamgda.statistics.floating.state",
    "DoubtfulModelWarning": "streamgda.estimators.traps",
    "ExactClassStatistics": "streamgda.exact.state",
    "IncompleteStatistics": "streamgda.incomplete.state",
    "Marginal": "streamgda.incomplete.policy",
    "Evaluation": "streamgda.scoring.evaluation",
    "HashedKFold": "streamgda.selection.splitters",
    "RandomFeatures": "streamgda.ridge.features",
    "StatisticsLedger": "streamgda.ledger.ledger",
    "StatisticsSearchCV": "streamgda.selection.search",
    "SubclassCenters": "streamgda.subclasses.centers",
    "Subclasses": "streamgda.subclasses.clustering",
    "WindowedStatistics": "streamgda.statistics.window",
    "PassProgress": "streamgda.passes.progress",
    "accumulate": "streamgda.passes.accumulate",
    "cross_validate": "streamgda.selection.validation",
    "drift": "streamgda.ledger.drift",
    "learning_curve": "streamgda.selection.validation",
    "from_bytes": "streamgda.estimators.saved",
    "load": "streamgda.estimators.saved",
    "load_metadata": "streamgda.estimators.saved",
    "load_model": "streamgda.estimators.saved",
    "load_statistics": "streamgda.estimators.saved",
    "estimate_priors": "streamgda.scoring.label_shift",
    "evaluate": "streamgda.scoring.evaluate",
    "predict_dataset": "streamgda.scoring.predict",
    "progressive_score": "streamgda.scoring.evaluate",
    "scan": "streamgda.sources.formats",
    "scan_arrow": "streamgda.sources.arrow",
    "scan_dask": "streamgda.sources.dask",
    "scan_parquet": "streamgda.sources.parquet",
    "scan_zarr": "streamgda.sources.zarr",
    "show_versions": "streamgda.kernels.versions",
}


_PACKAGES = ("diagnostics", "onnx", "plotting")


def __getattr__(name: str) -> object:
    """Load a public name when it is first used (PEP 562), so that importing the package stays quick."""
    if name in _PACKAGES:
        try:
            return import_module(f"{__name__}.{name}")
        except ImportError as error:
            raise AttributeError(f"{__name__}.{name} cannot be imported: {error}") from error
    home = ESTIMATORS[name].module if name in ESTIMATORS else _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
