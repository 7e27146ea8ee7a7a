"""Displays of models and searches, in the manner of scikit-learn's displays.

In come models, searches and rows; out come figures. Open `regions` first. A display holds what it draws;
`from_estimator` or `from_search` computes it and draws it, on `ax` or on a new figure. Displays of models are
computed from means and covariances alone; rows are optional, and are only drawn. matplotlib comes with the
extra "plot".

- `regions`: decision regions of two features, with ellipses of the classes.
- `projections`: the classes along the directions that linear discriminant analysis finds.
- `scores`: searches against a parameter, and learning curves.
- `categories`: what the categories of a table say about the classes.
- `contributions`: what columns contribute to the log-odds of a row, or of many.
- `drawing`: axes, colours, ellipses, rows and legends, for all of these.
"""

from streamgda.plotting.categories import CategoryEffectDisplay
from streamgda.plotting.contributions import ContributionsDisplay
from streamgda.plotting.projections import LinearProjectionDisplay
from streamgda.plotting.regions import DecisionRegionsDisplay
from streamgda.plotting.scores import LearningCurveDisplay, ValidationCurveDisplay

__all__ = [
    "CategoryEffectDisplay",
    "ContributionsDisplay",
    "DecisionRegionsDisplay",
    "LearningCurveDisplay",
    "LinearProjectionDisplay",
    "ValidationCurveDisplay",
]
