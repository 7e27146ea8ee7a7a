"""Discriminant analysis that chooses what the covariances of the classes have in common.

The core finds `estimator` by name in `streamgda.models.estimators.ESTIMATORS`. `parsimonious` fits
covariances that share volume, shape or orientation, and `determined` says for which of them there are enough
rows.
"""
