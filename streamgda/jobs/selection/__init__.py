"""Choose between models and validate them from the statistics of folds, with one or two reads of the rows.

A first read keeps a state for each fold (`streamgda.statistics.folded`). The state of a training part is the
sum of the other folds, so candidates are fitted to it without reading. Joint log-likelihoods of held-out
folds are computed from their states; other scorings take a second read.

- `search`: `StatisticsSearchCV` and its table.
- `validation`: `cross_validate` and `learning_curve`.
- `comparison`: candidates fitted to states, their scores on other folds, and why some failed.
- `row_scores`: the second read, in which each held-out row is scored.
- `splitters`: the folds that the user asks for, `HashedKFold`, the first read, and rows in memory as a
  source.
- `candidates`: estimators with parameters.
- `scorings`: sums over scored rows, and their score. To add a scoring, write one class and its entry there.
- `calibration`: the temperature that is best for scored rows.
"""
