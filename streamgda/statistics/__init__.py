"""Statistics of labelled rows: states that add up to the state of all the rows.

`base` is the interface of every state: rows go in, states add up, others are worked out of them, and they
are saved. `labelled` are the moments of a state with the labels they belong to. These are of two sorts:
``floating`` (means and scatters in float64) and ``exact`` (sums of integers on a binary grid). ``incomplete``
are rows in which features are missing, kept apart by the features that they have. `covariances` says what
is kept of the products of features.

- `factory`: the empty state of each sort, and the state that a saved table holds.
- `window` holds the last batches of a stream. `keyed`: states by a key, such as a fold; `folded` uses it.
- `components`: covariances within and between the classes, and which features make one singular.
- `revisions`: what was added to a state since a model was computed from it.
- `gather`: the buffer for the rows of a block. `validation`: checks of numbers and names.

A new kind of covariance
------------------------
is one class, in `covariances`:

1. Derive it from `CovarianceKind` and name it. Set ``is_pooled`` if all classes share one scatter.
2. Say what it keeps: the ``shape`` of its scatter, and the ``pairs`` of features whose products are in it.
3. Say how it is reduced: ``products`` of centred rows, and the ``outer`` product of a vector for each class
   with itself. The arrays are float64, and ``outer`` has the same shape as the scatter.
4. If the scatter is not of shape (..., d, d), say also how to look into it: ``diagonal``, ``zero``,
   ``packed``, ``unpacked``, ``is_symmetric`` and ``is_semidefinite``.
5. Put one object of it into `KINDS`, and its name into `CovarianceType`.

Its states, floating and exact, are then updated, merged, subtracted, narrowed from "full", saved and loaded
like all others. ``tests/contracts/test_covariance_kinds.py`` does this with a kind of its own.
"""
