"""Models, made of statistics.

In come statistics, or rows that become statistics; out come densities of the classes, labels, probabilities
and scores of rows. `estimators` holds the classifiers, `gaussians` the normal densities that they make. The
names of what extensions and jobs add stand in `estimators`. Open `estimators/qda.py` first: its `_finalise`
goes by `estimators/singular.py` to `gaussians/whitening.py`, where determinants and inverses are computed.
"""
