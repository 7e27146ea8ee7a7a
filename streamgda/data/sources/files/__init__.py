"""Sources of files: Parquet, CSV, JSON lines, Feather and ORC.

In come paths; out come splits that read row groups, or files as a whole, in blocks. Open `parquet` first.

- `parquet`: the source of files. `discovery` lists them, `keys` reads the names of their folders, `planning`
  makes a `Dataset` of the list by these and one footer, and plans each `InputFile` by its own footer. A task
  reads `row_groups`.
- `formats`: datasets of CSV, JSON lines, Feather and ORC, each file read as a whole, in order. `decoding`
  makes batches of their bytes. `format_options`: their options as text. `dialects`: the options that would
  read a file of CSV. `text_encodings`: which encoding its bytes have.
- `errors`: why a read failed, also of Arrow data and Zarr.
"""
