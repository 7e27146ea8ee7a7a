"""Gaussian discriminant analysis for data that does not fit in memory or never stops coming.

- Describe data: `scan`, `scan_parquet`, `scan_arrow`, `scan_zarr`, `scan_dask`. A source shows its first
  rows by `head`, and is divided for training and testing by `split`.
- Read it once: `accumulate` returns `ClassStatistics` or `ExactClassStatistics`; of rows in which features
  are missing, `IncompleteStatistics`; `Marginal` says how. `WindowedStatistics` holds the last batches of a
  stream, and `StatisticsLedger` the files of a dataset. `drift` compares two states. `private_statistics`
  are `PrivateClassStatistics`, which may be shared where rows may not.
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

from streamgda.models.estimators import ESTIMATORS

if TYPE_CHECKING:
    from streamgda.data.sources.arrow import scan_arrow as scan_arrow
    from streamgda.data.sources.dask import scan_dask as scan_dask
    from streamgda.data.sources.files.formats import scan as scan
    from streamgda.data.sources.files.parquet import scan_parquet as scan_parquet
    from streamgda.data.sources.running import PassProgress as PassProgress
    from streamgda.data.sources.zarr import scan_zarr as scan_zarr
    from streamgda.extensions.categories.reading import Categorical as Categorical
    from streamgda.extensions.edda.estimator import (
        GaussianDiscriminantAnalysis as GaussianDiscriminantAnalysis,
    )
    from streamgda.extensions.exact.state import ExactClassStatistics as ExactClassStatistics
    from streamgda.extensions.incomplete.policy import Marginal as Marginal
    from streamgda.extensions.incomplete.state import IncompleteStatistics as IncompleteStatistics
    from streamgda.extensions.private.state import PrivateClassStatistics as PrivateClassStatistics
    from streamgda.extensions.private.statistics import private_statistics as private_statistics
    from streamgda.extensions.ridge.classifier import RidgeClassifier as RidgeClassifier
    from streamgda.extensions.ridge.features import RandomFeatures as RandomFeatures
    from streamgda.extensions.ridge.random import RandomFeatureClassifier as RandomFeatureClassifier
    from streamgda.extensions.subclasses.centers import SubclassCenters as SubclassCenters
    from streamgda.extensions.subclasses.clustering import Subclasses as Subclasses
    from streamgda.extensions.subclasses.mda import MixtureDiscriminantAnalysis as MixtureDiscriminantAnalysis
    from streamgda.jobs.ledger.drift import drift as drift
    from streamgda.jobs.ledger.ledger import StatisticsLedger as StatisticsLedger
    from streamgda.jobs.passes.accumulate import accumulate as accumulate
    from streamgda.jobs.scoring.evaluate import evaluate as evaluate
    from streamgda.jobs.scoring.evaluate import progressive_score as progressive_score
    from streamgda.jobs.scoring.evaluation import Evaluation as Evaluation
    from streamgda.jobs.scoring.label_shift import estimate_priors as estimate_priors
    from streamgda.jobs.scoring.predict import predict_dataset as predict_dataset
    from streamgda.jobs.selection.search import StatisticsSearchCV as StatisticsSearchCV
    from streamgda.jobs.selection.splitters import HashedKFold as HashedKFold
    from streamgda.jobs.selection.validation import cross_validate as cross_validate
    from streamgda.jobs.selection.validation import learning_curve as learning_curve
    from streamgda.models.estimators.lda import LinearDiscriminantAnalysis as LinearDiscriminantAnalysis
    from streamgda.models.estimators.naive_bayes import GaussianNB as GaussianNB
    from streamgda.models.estimators.qda import QuadraticDiscriminantAnalysis as QuadraticDiscriminantAnalysis
    from streamgda.models.estimators.saved import from_bytes as from_bytes
    from streamgda.models.estimators.saved import load as load
    from streamgda.models.estimators.saved import load_metadata as load_metadata
    from streamgda.models.estimators.saved import load_model as load_model
    from streamgda.models.estimators.saved import load_statistics as load_statistics
    from streamgda.models.estimators.traps import DoubtfulModelWarning as DoubtfulModelWarning
    from streamgda.statistics.floating.state import ClassStatistics as ClassStatistics
    from streamgda.statistics.kernels.versions import show_versions as show_versions
    from streamgda.statistics.window import WindowedStatistics as WindowedStatistics

__docformat__ = "numpy"

__version__ = "0.3.0.dev0"

_HOME_OF = {
    "Categorical": "streamgda.extensions.categories.reading",
    "ClassStatistics": "streamgda.statistics.floating.state",
    "DoubtfulModelWarning": "streamgda.models.estimators.traps",
    "ExactClassStatistics": "streamgda.extensions.exact.state",
    "IncompleteStatistics": "streamgda.extensions.incomplete.state",
    "Marginal": "streamgda.extensions.incomplete.policy",
    "PrivateClassStatistics": "streamgda.extensions.private.state",
    "Evaluation": "streamgda.jobs.scoring.evaluation",
    "HashedKFold": "streamgda.jobs.selection.splitters",
    "RandomFeatures": "streamgda.extensions.ridge.features",
    "StatisticsLedger": "streamgda.jobs.ledger.ledger",
    "StatisticsSearchCV": "streamgda.jobs.selection.search",
    "SubclassCenters": "streamgda.extensions.subclasses.centers",
    "Subclasses": "streamgda.extensions.subclasses.clustering",
    "WindowedStatistics": "streamgda.statistics.window",
    "PassProgress": "streamgda.data.sources.running",
    "accumulate": "streamgda.jobs.passes.accumulate",
    "cross_validate": "streamgda.jobs.selection.validation",
    "drift": "streamgda.jobs.ledger.drift",
    "learning_curve": "streamgda.jobs.selection.validation",
    "from_bytes": "streamgda.models.estimators.saved",
    "load": "streamgda.models.estimators.saved",
    "load_metadata": "streamgda.models.estimators.saved",
    "load_model": "streamgda.models.estimators.saved",
    "load_statistics": "streamgda.models.estimators.saved",
    "estimate_priors": "streamgda.jobs.scoring.label_shift",
    "evaluate": "streamgda.jobs.scoring.evaluate",
    "private_statistics": "streamgda.extensions.private.statistics",
    "predict_dataset": "streamgda.jobs.scoring.predict",
    "progressive_score": "streamgda.jobs.scoring.evaluate",
    "scan": "streamgda.data.sources.files.formats",
    "scan_arrow": "streamgda.data.sources.arrow",
    "scan_dask": "streamgda.data.sources.dask",
    "scan_parquet": "streamgda.data.sources.files.parquet",
    "scan_zarr": "streamgda.data.sources.zarr",
    "show_versions": "streamgda.statistics.kernels.versions",
}
"""Where the public names that are no estimators are defined; type checkers go by the imports above."""

__all__ = list(ESTIMATORS) + list(_HOME_OF)

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
