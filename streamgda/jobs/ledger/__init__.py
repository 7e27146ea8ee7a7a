"""Keep the statistics of a dataset of files up to date, and read each file only once.

A ledger is a folder::

    ledger.parquet    the merged statistics of all files, and the list of the files in its document
    entries/          tables of entries: the statistics of many files each, with the records of the files
    .lock             locked during a refresh, on this machine

``ledger.parquet`` is a state that `streamgda.load` reads. Its document holds what is read of each file
(``reads``), and the files with their versions, rows and tables (``files``).

A refresh locks the folder, reads ``ledger.parquet``, and lists the tables and the files of the source. It
reads the files that are new or have changed, and writes tables of their entries. Then it replaces
``ledger.parquet``. This replacement is atomic, and the only commit: a table that is not named there does not
count. A refresh that follows an interrupted one reads the footers of such tables, and takes the entries of
the files that are still in the same version.

Tables never change. The entry of a file that has changed or is gone stays in its table, where nothing reads
it. When there are many small tables, a refresh writes their entries into larger ones. Only files whose names
have the form that a ledger gives are deleted, and those where there is no lock once they are a day old.

`ledger`
    `StatisticsLedger`, which uses all of these. Open it first.
`entries`
    Tables of entries, and ``ledger.parquet``: states and records are packed into them, and read from them.
    `LedgerFile.commit` replaces ``ledger.parquet``.
`drift`
    The reports: how far new rows lie from old ones and when that is an alarm, and what a refresh did.
`refresh`
    Plan which files to read, and read them on any scheduler.
"""
