"""The exact state: sums of integers on a binary grid, rounded only when moments are read.

Open `state` first.

- `state`: `ExactClassStatistics`, its columns, and states from the integer sums of an SQL engine.
- `sums`: the integers that it holds.
- `reduction`: the sums of a block, from rows that are cut into small integers, and the products of these.
- `numbers`: integers of any size, and moments, which are rounded once.

The core finds `ExactClassStatistics` by name in `streamgda.statistics.registry.STATISTICS`.
"""
