"""Predictive densities of classes: Student t, since means and covariances are estimated.

The core finds them by name in `streamgda.models.estimators.STUDENT`. `densities` has the densities,
and `predictive` makes them of normal ones.
"""
