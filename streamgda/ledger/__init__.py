"""Keep the statistics of a dataset of files up to date, and read each file only once.

A ledger is a folder::

    manifest.parquet     the files, their versions and tables, and whether they count
    entries/             tables of entries: the statistics of many files each, with the records of the files
    total.parquet        the merged statistics of all the files; a cache, which may be missing
    quarantine.parquet   the files that do not count once more, for a ledger that loses its manifest
    .lock                held during a refresh, on this machine

A refresh looks once: it locks the folder, lists the tables, reads the manifest, and lists the files of the
source. It reads the files that are new or have changed, and writes tables of their entries. Then it replaces
the manifest. This replacement is atomic, and the only commit: a table that the manifest does not name does
not count. A refresh that follows an interrupted one reads the footers of such tables, and takes the entries
of the files that are still in the same version.

Tables never change. The entry of a file that has changed or is gone stays in its table, where nothing reads
it. When more than half of a table is such entries, or there are many small tables, a refresh writes their
entries anew. Only files whose names have a form that a ledger gives (see `manifest`) are deleted: tables that
the manifest no longer names, and files that a crash has left. Where there is no lock, they must be a day old.

From the bottom up:

`manifest`
    The manifest, the record of each file in it, the names of files, and which of them are chosen.
`entries`
    Tables of entries: states and records are packed into them, and read from them.
`folder`
    The folder: its lock, its manifest, its tables and their total, and what is deleted.
`drift`
    The reports: how far new rows lie from old ones and when that is an alarm, and what a refresh did.
`refresh`
    Plan which files to read, read them on any scheduler, and judge each new one.
`ledger`
    `StatisticsLedger`, which uses all of these.
"""
