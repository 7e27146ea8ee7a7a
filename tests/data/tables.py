"""Datasets, as several tests store them."""

import numpy as np
import pyarrow.parquet as pq
import zarr


def parquet_files(folder, table, n_files=2, **writing):
    """Write the rows of a table to files of equal length, but for the last."""
    folder.mkdir(exist_ok=True)
    length = -(-len(table) // n_files)
    for i in range(n_files):
        pq.write_table(table.slice(i * length, length), folder / f"{i}.parquet", **writing)
    return folder


def zarr_group(place, chunk=None, *, zarr_format=3, **arrays):
    """Write a group of arrays, in chunks of so many rows, which have all columns."""
    group = zarr.open_group(place, mode="w", zarr_format=zarr_format)
    for name, given in arrays.items():
        values = np.asarray(given)
        chunks = values.shape if chunk is None else (chunk, *values.shape[1:])
        group.create_array(name, data=values, chunks=chunks)
    return group
