"""The floating state: means and centred scatters in float64, each mean to twice that precision.

- `state`: `ClassStatistics`. `reduction`: the moments of a block.
  `category_moments`: those of a block with categories.
- `accumulation`: the state of a task, to which blocks are added in place. The rows of many short classes are
  summed about anchors.
- `moments`: how moments are merged and subtracted. `arrays`: the arrays of moments. `fourth_moments`: third
  and fourth moments.
- `moment_columns`: a state as the columns of a table, and states from raw sums or moments.
"""
