"""Gaussian discriminant analysis for data that does not fit in memory or never stops coming.

- Describe data: `scan`, `scan_parquet`, `scan_arrow`, `scan_zarr`, `scan_dask`. A source shows its first
  rows by `head`, and is divided for training and testing by `split`.
- Read it once: `accumulate` returns `ClassStatistics` or `ExactClassStatistics`; of rows in which features
  are missing, `IncompleteStatistics`; `Marginal` says how. `WindowedStatistics` holds the last batches of a
  stream, and `StatisticsLedger` the files of a dataset. `drift` compares two states. `private_statistics`
  are `PrivateClassStatistics`, which may be shared where rows may not.
- Fit and predict: `GaussianNB`, `LinearDiscriminantAnalysis`, `QuadraticDiscriminantAnalysis`,
  `GaussianDiscriminantAnalysis`, `MixtureDiscriminantAnalysis`, `RidgeClassifier`,
  `RandomFeatureClassifier`, `LeafClassifier`. `Categorical` says which columns have categories, and what
  models make of them. `load` reads what `save` wrote, and `load_metadata` where it comes from.
  `RandomFeatures` approximate kernels, and `LeafFeatures` are the leaves of a forest.
- Whole datasets: `predict_dataset` writes predictions. `evaluate` and `progressive_score` return an
  `Evaluation`. `AdaptiveConformalInference` keeps the coverage of prediction sets in a stream.
  `estimate_priors` finds the shares of the classes in rows without labels.
- Choose and validate: `StatisticsSearchCV` searches for parameters in one read, or two;
  `cross_validate` and `learning_curve` score one model.

Displays are in `streamgda.plotting`, tests of statistics in `streamgda.diagnostics`. `show_versions` prints
what a report of a bug needs.
"""

import re
from importlib import import_module
from pkgutil import get_data

from streamgda.models.estimators import ESTIMATORS

__docformat__ = "numpy"

__version__ = "0.3.0.dev0"

_IMPORTS = re.findall(r"^from (\S+) import (\w+)", (get_data(__name__, "__init__.pyi") or b"").decode(), re.M)
_HOME_OF = {name: home for home, name in _IMPORTS}

__all__ = list(_HOME_OF)

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
