"""One pass over a source on any of Dask's schedulers.

A pass reads a source once. Each task folds consecutive splits into a state, and a tree of merges makes one
state of them all. The tree depends on the source alone, so the result has the same bits on every scheduler.

- `accumulate`: the pass that learns; its states are statistics.
- `plan`: the Dask graph of any pass.
- `compute`: run a plan, with or without a progress bar.
- `schedulers`: which scheduler runs a pass.
- `blas`: one BLAS thread in each task.
- `incomplete`: messages and warnings where incomplete rows take several reads.
"""
