"""Rows from wherever they are, in blocks.

In come paths, tables, arrays and collections; out come blocks of checked rows with labels and weights.
`sources` describes data and reads it, `blocks` checks rows, `storage` reads and writes files anywhere.
`registry` names what extensions add. A row group of Parquet goes from `sources/files/row_groups.py`
(`RowGroups`), and a file of CSV from `sources/files/formats.py` (`FileRows`), through `sources/batches.py`
(`BatchSplit`) to `blocks/block.py` (`cut_into_blocks`). Open `sources/base.py` first, then these.
"""
