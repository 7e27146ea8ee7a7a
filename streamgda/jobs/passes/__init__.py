"""One pass over a source on any of Dask's schedulers.

A pass reads a source once. Each task folds consecutive splits into a state, and a tree of merges makes one
state of them all. The tree depends on the source alone, so the result has the same bits on every scheduler.

- `accumulate`: the pass that learns; its states are statistics.
- `plan`: what any pass reads, and what it makes of it.
- `compute`: run a plan on a scheduler, with one BLAS thread in each task.
- `threads`: run it in threads of this process, from the first fetch to the last merge.
- `graph`: its Dask graph, for all other schedulers.
- `cluster`: run the graph on the workers of a cluster, and watch over them.
- `progress`: how far a pass is.
- `checkpoint`: states that are kept for a pass that begins again.
"""
