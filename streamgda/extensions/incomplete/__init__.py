"""Statistics of rows in which features are missing: sums by class and by pattern of observed features.

- `patterns`: a block cut into parts whose rows have the same features; the sums of each pattern, and how they
  are merged. Rows are added to them block by block.
- `available`: the moments of each feature by itself, and which means and covariances are undetermined.
- `em`: the likeliest means and covariances, in closed form or by EM on the sums of patterns.
- `state`: `IncompleteStatistics`, and its columns.
- `policy`: `Marginal`, the value of a parameter `missing` of models, passes and ledgers, and EM that reads
  the rows once for each step, if there are too many patterns. `reads`: its E step.

The core finds `IncompleteStatistics` by name in `streamgda.statistics.registry.STATISTICS`, and `Marginal` in
`streamgda.data.registry.OPTIONS`.
"""
