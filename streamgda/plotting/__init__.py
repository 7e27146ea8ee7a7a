"""Pictures of models and evaluations, in the habit of scikit-learn's displays.

A display holds what it draws; `from_estimator` or `from_evaluation` works it out and draws it, on `ax` or on
a new figure. What is drawn of a model comes from its means and covariances alone: no rows are needed, and
those given are only drawn. matplotlib comes with the extra "plot".
"""

from streamgda.plotting.evaluations import (
    CalibrationDisplay,
    ConfusionMatrixDisplay,
    PrecisionRecallDisplay,
    RocCurveDisplay,
)
from streamgda.plotting.projections import LinearProjectionDisplay
from streamgda.plotting.regions import DecisionRegionsDisplay

__all__ = [
    "CalibrationDisplay",
    "ConfusionMatrixDisplay",
    "DecisionRegionsDisplay",
    "LinearProjectionDisplay",
    "PrecisionRecallDisplay",
    "RocCurveDisplay",
]
