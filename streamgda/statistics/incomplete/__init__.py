"""Statistics of rows in which features are missing: sums by class and by pattern of observed features.

- `patterns`: a block cut into parts whose rows have the same features.
- `groups`: the sums of each pattern, which add up. `grouping`: rows are added to them, block by block.
- `complete_rows`: fourth moments.
- `columns`: a state as columns, and back.
- `available`, `em`, `monotone`, `completion`: the likeliest means and covariances, in closed form or by EM on
  the sums of the patterns.
- `undetermined`: what the rows do not determine.
- `likeliest`, `state`: `IncompleteStatistics`. `table`: its patterns as a table.
- `separating`, `expectation`, `reads`: where there are too many patterns, EM that reads the rows once for
  each step.
"""
