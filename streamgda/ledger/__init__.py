"""Keep the statistics of a dataset of files up to date, and read each file only once.

A ledger is a folder::

    manifest.parquet     the files, their versions and entries, and whether they count
    entries/             the entries: saved statistics, of one file each, or of several folded into one
    total.parquet        the merged statistics of all the entries; a cache, which may be missing
    quarantine.parquet   the files that do not count once more, for a ledger that loses its manifest
    .lock                held during a refresh, on this machine

A refresh lists the files of the source, reads those that are new or have changed, writes an entry for each,
and then replaces the manifest. This replacement is atomic. Before it, nothing has changed: an entry that the
manifest does not name does not count. The name of an entry is a hash of its file's path and version and of
the read options. If a refresh verifies a known file, the hash covers its footer too. So a refresh that
follows an interrupted one finds the entries that are already there by their names, and two refreshes at once
write the same entries.

Entries never change. Only files whose names have a form that a ledger gives (see `manifest`) are deleted:
entries that the manifest no longer names, and files that a crash has left.

From the bottom up:

`manifest`
    The manifest, the record of each file in it, the names of files, and which of them are chosen.
`folder`
    The folder: its lock, its manifest, its entries and their total, and what is deleted.
`drift`
    The reports: how far new rows lie from old ones and when that is an alarm, and what a refresh did.
`refresh`
    Plan which files to read, read them on any scheduler, and judge each new one.
`ledger`
    `StatisticsLedger`, which uses all of these.
"""
