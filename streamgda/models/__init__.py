"""Models, made of statistics.

In come statistics, or rows that become statistics; out come densities of the classes, labels, probabilities
and scores of rows. `estimators` holds the classifiers, `gaussians` the normal densities that they make. The
names of what extensions and jobs add stand in `estimators`. Open `estimators/qda.py` first: its `_finalise`
goes by `estimators/singular.py` to `Whitening.of` in `gaussians/whitening.py`, where the factors and the
log-determinants of the classes (`log_pdet`) are computed; with `pooling`, by `gaussians/regularisation.py` to
`Whitening.of_same_range`.
"""
