"""Gaussian discriminant analysis for data that does not fit in memory or never stops coming."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamgda.accumulation import accumulate
    from streamgda.estimators.lda import LinearDiscriminantAnalysis
    from streamgda.estimators.naive_bayes import GaussianNB
    from streamgda.estimators.qda import QuadraticDiscriminantAnalysis
    from streamgda.evaluation import Evaluation
    from streamgda.exact import ExactClassStatistics
    from streamgda.ledger.ledger import StatisticsLedger
    from streamgda.prediction import predict_dataset
    from streamgda.scoring import evaluate, progressive_score
    from streamgda.sources.arrow import scan_arrow
    from streamgda.sources.dask import scan_dask
    from streamgda.sources.parquet import scan_parquet
    from streamgda.sources.zarr import scan_zarr
    from streamgda.statistics import ClassStatistics
    from streamgda.storage import load
    from streamgda.window import WindowedStatistics

__all__ = [
    "ClassStatistics",
    "Evaluation",
    "ExactClassStatistics",
    "GaussianNB",
    "LinearDiscriminantAnalysis",
    "QuadraticDiscriminantAnalysis",
    "StatisticsLedger",
    "WindowedStatistics",
    "accumulate",
    "evaluate",
    "load",
    "predict_dataset",
    "progressive_score",
    "scan_arrow",
    "scan_dask",
    "scan_parquet",
    "scan_zarr",
]

__version__ = "0.1.0"

_HOME_OF = {
    "ClassStatistics": "streamgda.statistics",
    "ExactClassStatistics": "streamgda.exact",
    "Evaluation": "streamgda.evaluation",
    "GaussianNB": "streamgda.estimators.naive_bayes",
    "LinearDiscriminantAnalysis": "streamgda.estimators.lda",
    "QuadraticDiscriminantAnalysis": "streamgda.estimators.qda",
    "StatisticsLedger": "streamgda.ledger.ledger",
    "WindowedStatistics": "streamgda.window",
    "accumulate": "streamgda.accumulation",
    "load": "streamgda.storage",
    "evaluate": "streamgda.scoring",
    "predict_dataset": "streamgda.prediction",
    "progressive_score": "streamgda.scoring",
    "scan_arrow": "streamgda.sources.arrow",
    "scan_dask": "streamgda.sources.dask",
    "scan_parquet": "streamgda.sources.parquet",
    "scan_zarr": "streamgda.sources.zarr",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used (PEP 562), so that importing the package stays quick."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
