"""Pictures of models, in the habit of scikit-learn's displays.

A display holds what it draws; `from_estimator` works it out and draws it, on `ax` or on
a new figure. What is drawn of a model comes from its means and covariances alone: no rows are needed, and
those given are only drawn. matplotlib comes with the extra "plot".
"""

from streamgda.plotting.projections import LinearProjectionDisplay
from streamgda.plotting.regions import DecisionRegionsDisplay

__all__ = [
    "DecisionRegionsDisplay",
    "LinearProjectionDisplay",
]
