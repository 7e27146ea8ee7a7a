"""The floating state: means and centred scatters in float64, each mean to twice that precision.

- `state`: `ClassStatistics`. `reduction`: the moments of a block.
- `accumulation`: the state of a task, to which blocks are added in place; where classes are many and have few
  rows each, as sums about anchors.
- `moments`: merges and subtracts moments. `arrays`: the arrays that they consist of. `fourth_moments`: third
  and fourth moments.
- `moment_columns`: a state as the columns of a table, and states from raw sums or moments.
"""
