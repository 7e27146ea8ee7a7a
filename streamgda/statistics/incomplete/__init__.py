"""Statistics of rows in which features are missing: sums by class and by pattern of observed features.

- `patterns`: a block cut into parts whose rows have the same features.
- `groups`: the sums of each pattern, which add up.
- `columns`: a state as columns, and back.
- `state`: `IncompleteStatistics`.
"""
