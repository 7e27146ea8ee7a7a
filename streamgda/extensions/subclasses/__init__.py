"""Classes of several normal subclasses: mixture discriminant analysis.

`clustering` finds the centres of subclasses by k-means, as its option `Subclasses` says, in a sample of the
rows that `sampled` keeps. `centers` is the `RowRule` that gives each row the subclass of its nearest centre,
before rows are added up. `mixtures` has the densities of the classes. `mda` is the estimator. The core finds
them by name in `streamgda.statistics.registry.RULES`, `streamgda.data.registry.OPTIONS` and
`streamgda.models.estimators.ESTIMATORS`.
"""
