"""Choose between models, and validate them, from the statistics of folds: in one read of the rows, or two.

A first read keeps a state for each fold (`streamgda.statistics.folded`). The state of a training part is the
sum of the other folds, so candidates are fitted to it without reading. Joint log-likelihoods of held-out
folds are computed from their states; other scorings take a second read.

- `search`: `StatisticsSearchCV`.
- `validation`: `cross_validate` and `learning_curve`.
- `comparison`: candidates fitted to states, and their scores on other folds.
- `reading`: the second read, which scores rows.
- `downdates`: each row scored by the model of all the others, by `diagonal_downdate` or
  `discriminant_downdate`. `downdate`: what is left without a row.
- `folds`: which folds are asked for, and `HashedKFold`.
- `candidates`: estimators with parameters.
- `scorers`: scores of rows in memory by one model.
- `unsupported`: what stands for parameters of scikit-learn that are not here.
- `scorings`: sums over scored rows, and their score. To add a scoring, write one class and its entry there.
- `likelihood`: log-likelihoods from states.
- `failures`: why a candidate has no score.
- `results`: the table of a search.
- `arrays`: rows in memory as a source.
"""
