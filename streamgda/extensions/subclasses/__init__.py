"""Classes of several normal subclasses: mixture discriminant analysis.

`centers` is a `RowRule`, which gives rows their subclass before they are added up. `sampled` is the state
from which `clustering` finds centres, as its option `Subclasses` says. `mixtures` has the densities of the
classes. `mda` is the estimator. The core finds them by name in `streamgda.statistics.registry.RULES`,
`streamgda.data.registry.OPTIONS` and `streamgda.models.estimators.ESTIMATORS`.
"""
