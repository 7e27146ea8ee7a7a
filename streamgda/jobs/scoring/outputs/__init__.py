"""Where predictions are written: part by part, so that a run that was stopped can go on.

`predict_dataset` gets the parts of an output, and locks it. The output finds its finished parts and removes
all others. `predict_dataset` then writes the missing parts in parallel tasks, and completes the output. Only
files that `predict_dataset` itself wrote are ever deleted.

- `base`: what every output can do; what it writes (fields, parts and rows of predictions), and the summary.
- `parquet`: a folder of Parquet files, one for each split of the input.
- `zarr`: a Zarr group, with a part for each range of whole chunks; its files, notes and arrays.

To add a kind of output, write a subclass of `base.Output`, and choose it in `streamgda.jobs.scoring.predict`
by the path that a user gives.
"""
