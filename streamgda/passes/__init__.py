"""One pass over a source on any of Dask's schedulers.

A pass reads a source once. Each task folds consecutive splits into a state, and a tree of merges makes one
state of them all. The tree depends on the source alone, so the result has the same bits on every scheduler.

- `accumulate`: the pass that learns; its states are statistics.
- `graph`: what any pass reads and makes of it, and its Dask graph, on this machine and on a cluster.
- `compute`: run a plan on a scheduler, with one BLAS thread in each task.
- `cluster`: run it on the workers of a cluster, and watch over them.
- `progress`: how far a pass is.
- `checkpoint`: states that are kept for a pass that begins again.
"""
