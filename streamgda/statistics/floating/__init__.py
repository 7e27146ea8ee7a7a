"""The floating state: means and centred scatters in float64, each mean to twice that precision.

- `state`: `ClassStatistics`. `accumulation`: the state of a task, to which blocks are added in place.
- `reduction`: the moments of a block. `anchored`: the same, where classes are many and have few rows each.
- `moments`: merges and subtracts moments. `arrays`: the arrays that they consist of. `fourth_moments`: third
  and fourth moments.
- `columns`: a state as the columns of a table. `exchange`: states from raw sums or moments, and raw sums.
- `digits`: warnings where float64 does not hold the digits of a variance.
"""
