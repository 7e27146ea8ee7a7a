"""Statistics of rows in which features are missing: sums by class and by pattern of observed features.

- `patterns`: a block cut into parts whose rows have the same features.
- `pattern_states`: the sums of each pattern, which add up. `pattern_sums`: rows are added, block by block.
- `pattern_columns`: a state as columns, and back.
- `available`: what is known of each feature by itself, and which means and covariances are left open.
- `em`, `completion`: the likeliest means and covariances, in closed form or by EM on the sums of patterns.
- `state`: `IncompleteStatistics`. `table`: its patterns as a table.
- `expectation`, `reads`: where there are too many patterns, EM that reads the rows once for each step.
"""
