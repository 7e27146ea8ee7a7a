"""Files on any filesystem, and the saved format of statistics and models.

This room imports no other room of the package. Its files, from the bottom up:

`paths`
    Paths as users pass them; paths and errors as messages show them.
`documents`
    Plain values as JSON and as hashes, and the JSON document in the metadata of a file.
`identity`
    Hashes of values with their types, by which states and outputs are found again.
`versions`
    The `Version` of a file. It decides whether the file has changed.
`threads`
    Threads that nothing waits for, such as those that make requests.
`retries`
    Which errors come from storage; calls that are repeated after a pause if storage fails.
`secrets`
    Filesystems whose paths, answers and errors show nothing of the secrets in a URL.
`filesystems`
    `Storage`: the filesystem, pyarrow's or fsspec's, that a path or URL is on. Which files are in a folder,
    and their versions; whether two paths lead to one place. Write a file wholly or not at all; let one
    process at a time write to a folder.
`reading`
    The bytes of a file, whole or by ranges.
`footers`
    Read, keep and check the footer of a Parquet file.
`fetching`
    Remote Parquet files, whose needed byte ranges are fetched ahead.
`tables`
    An Arrow table with its JSON document as one Parquet file; arrays with one row per class as its columns.
`saving`
    `save` and `to_bytes`, which become methods of statistics and models; the base class of objects with a
    `load` of their own.

The format, versions 1 to 4
---------------------------
Statistics are a Parquet table with one row per class. Its columns:

=================  ==============================  ====================================================
column             type                            what it holds
=================  ==============================  ====================================================
``label``          int64, string or bool           the class, in its own type
``count``          int64                           rows seen of it
``weight``         double                          sum of their weights
``weight_tail``    double                          what rounding left of the weight: the weight is their
                                                   sum. Only there if it is not zero for all classes
``squared_weight`` double                          sum of their squared weights. Where it is absent or 0, the
                                                   rows of a class have equal weights
``mean``           list of d doubles               the mean
``mean_tail``      list of d doubles               what rounding left of the mean: the mean is their sum
``scatter``        list of doubles                 Σ w (x − mean)(x − mean)ᵀ. For "full" its lower
                                                   triangle, row by row: (i, j) is at i (i + 1) / 2 + j,
                                                   counted from 0; for "diag" the diagonal
``pooled_scatter`` list of doubles                 for "tied", in place of ``scatter``: the one lower
                                                   triangle of all the classes, in the first row, and
                                                   null in the others
``third_moment``   list of d² doubles              Σ w u_i² u_j, where fourth moments are kept; (i, j) is at
                                                   i d + j, and u is the deviation from the mean
``fourth_moment``  list of doubles                 Σ w u_i² u_j², packed as ``scatter``
=================  ==============================  ====================================================

Exact statistics have ``label`` and ``count``, and in place of the others ``weight_digits``, ``sum_digits``
and ``outer_sum_digits`` (or ``pooled_outer_sum_digits``): lists of the balanced digits, in base 2³², of Σ w,
Σ w x and Σ w x xᵀ, the latter packed as ``scatter``. Those of Σ w², in ``squared_weight_digits``, may be
absent. The lowest digit of each number comes first; with ``positions`` in the metadata p, it stands for a
multiple of 2³²ᵖ.

Version 2 adds the statistics of rows in which features may be missing. Their table joins the tables of the
patterns of observed features, one below the other. It has a row for each class of each pattern. The lists of
a row are of the observed features alone. A label occurs at most once in each pattern. One more column,
``pattern`` (int64), is the position of the pattern in the metadata. Version 3 was of ledgers that are no
longer read. Version 4 is that of ledgers and of tables of entries, in which the statistics of many files lie
one below the other; `streamgda.jobs.ledger` describes them. All else is written in version 1.

The metadata of the file has one key of this project, ``streamgda``. Its value is a JSON object:

``format_version``
    2 if features may be missing; 4 in ledgers and tables of entries; 1 otherwise.
``kind``
    The kind of statistics: "ClassStatistics", "ExactClassStatistics" or "IncompleteStatistics". A ledger
    with folds, and its entries, are of kind "FoldStatistics", whose table `streamgda.jobs.ledger.entries`
    describes.
``covariance_type``, ``n_features``, ``feature_names``, ``n_dropped``
    As the attributes of the statistics; ``feature_names`` may be null.
``categories``
    ``numbers`` and ``columns`` are the names of the columns of numbers and of those with categories.
    ``values`` has a list for each of the latter: strings, integers or booleans, sorted, and null at the end
    for a missing value. The features are the numbers, then a dummy for each value. Absent where all columns
    are numbers.
``definite``
    Whether every scatter is positive semidefinite up to 10⁻⁸ on the scale of its features. It is then
    checked on reading. Rounding can make it false where rows were taken out again.
``patterns``
    For incomplete statistics, a list of objects, one for each pattern: ``observed`` has a character for each
    feature, "1" where it is observed and "0" where it is missing; ``definite`` or ``positions`` are those of
    its rows. ``exact`` and ``fourth_moments`` (booleans) say what the sums are, and ``max_patterns`` how many
    patterns may be kept.
``model``
    For an estimator, its class (``name``) and its hyperparameters (``params``). Absent otherwise. If it
    learnt from rows in float32, or from labels that are numbers of another type than int64, ``types`` has
    these types. If priors are given by label, ``params`` has the labels as text, since keys of JSON are text.
    ``priors`` then is a list of pairs: a label, in its own type, and its prior. If ``priors`` is absent, the
    text stands for the label.
``checksum``
    A hash of all the other keys: BLAKE2b, 16 bytes, of their JSON with sorted keys, as
    `streamgda.data.storage.documents.digest` computes it. It may be absent. The columns have the checksums of
    Parquet's pages.
``library``, ``time``, ``fingerprint``
    The name and version of the library that saved the file, when (ISO 8601 in UTC; absent from `to_bytes`),
    and the `digest` of the statistics: SHA-256 of their columns and the keys above, without ``model``. All
    may be absent, and no reader needs them.
``metadata``
    What a user kept by ``save(metadata=)``, an object. Absent otherwise.
``checkpoint``
    For a state of a checkpoint, the name of its file, which is a hash of what was read. Absent otherwise.
``reads``, ``files``
    For a ledger or a table of entries, what is read of each file, and the files. Absent otherwise.

Other columns and keys are ignored. Nothing in a file is ever run.

How to change the format
------------------------
1. Raise ``FORMAT_VERSION`` in `streamgda.data.storage.documents`, and say above what is new.
2. Let `load` convert what the old version holds into what the new one does.
3. Add files of the new version to ``tests/files``, with their test. Those of old versions stay, and load for
   ever.
"""
