"""What is kept of the rows, and merged.

In come blocks of labelled rows; out come states, which add up to the state of all the rows and are saved.
Open `floating/state.py` first: its `ClassStatistics` is what users meet. A merge goes from `base` to
`labelled`, which matches the classes, and to `floating/moments.py`, which adds up their scatters by
`merge_moments` of `kernels/sums.c`, or where classes share one by its own `_joined_scatter`. All files, in
the order in which they are best read:

1. `base`: `Statistics`, the base class of all states: how one is read, filled, merged, compared and saved,
   and how others are derived.
2. `labelled`: the labels of the classes, with the counts and the moments that belong to them.
3. `covariances`: the kinds of covariance. A kind says which products of features are kept.
4. ``floating``: means and scatters in float64, summed up by the loops of `streamgda.statistics.kernels`.
5. `factory`: the empty state of each sort, and the state in a saved table. Others, such as those of
   `streamgda.extensions.exact` and `streamgda.extensions.incomplete`, are found by name.

These build on them:

- `window`: the last batches of a stream. `folded`: states by a key, such as a fold.
- `rules`: rules that divide the rows of a class, such as those of mixtures.
- `missing`: how rows in which features are missing are learnt. `registry`: what extensions add.
- `required`: what statistics keep of the rows, as one object that is handed on.
- `locking`: how a state is read at one moment while other threads change it.
- `validation`: checks of numbers and names.

A new kind of covariance
------------------------
is one class, in `covariances`:

1. Derive it from `CovarianceKind` and name it. Set ``is_pooled`` if all classes share one scatter.
2. Say what it keeps: the ``shape`` of its scatter, and the ``pairs`` of features whose products it holds.
   Both are also asked for 0 features. A file tells a kind by its name alone: kinds with other pairs have
   other names.
3. Say how it is reduced: ``products`` of rows (or how to ``add`` them in place), and the ``outer`` product of
   a vector for each class with itself. The arrays are float64 and have the shape of the scatter.
4. If the scatter is not of shape (..., d, d), say also how to look into it: ``diagonal``, ``zero``,
   ``packed``, ``unpacked``, ``is_symmetric`` and ``is_semidefinite``. Densities of its model then override
   ``total_squared_distance``, which reads the scatter.
5. Put one object of it into `KINDS`, and its name into `CovarianceType`.

Its states, floating and exact, are then updated, merged, subtracted, narrowed from "full", saved and loaded
like all others, also if it is defined outside of the package. A model of it is a
`QuadraticDiscriminantAnalysis` with its ``_covariance_type``, if the scatter is of shape (K, d, d), or
another estimator; see `streamgda.models.estimators`. ``tests/contracts/test_covariance_kinds.py`` does this
with two.
"""
