"""The floating state: means and centred scatters in float64, each mean to twice that precision.

- `state`: `ClassStatistics`. `reduction`: blocks are added to moments. `sparse`: those of sparse rows.
- `moments`: how moments are held, merged, subtracted and read. `fourth_moments`: third and fourth moments.
- `moment_columns`: a state as the columns of a table, many states in one table, which are merged at once, and
  states from raw sums or moments.
"""
