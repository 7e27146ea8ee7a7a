"""A fitted model on a dataset: evaluate it, or write its predictions.

Rows are scored by `streamgda.models.estimators.classifier.score_rows` alone, as in the methods of the
estimators: the same rows have the same scores, to the last bit, in memory, from files and on Dask.

- `evaluate` and `evaluation`: confusion matrix, losses and curves in one pass; `curves` bins the scores,
  `calibration` adds up the losses at other temperatures, and `measures` are computed from the sums.
- `adaptive`: the level of prediction sets in a stream, which moves so that they keep their coverage.
- `label_shift`: the shares of the classes in rows without labels.
- `predict`: predictions as Parquet or Zarr, which `outputs` write.
- `columns`: the columns of predictions, and smaller blocks that bound their memory.
- `inference`: the scores of the rows of a block, and which class is predicted.

To add a column of predictions, write one entry of `streamgda.jobs.scoring.columns.COLUMNS`: a function that
returns its fields, with their names and types, and one that takes its values from the scores of rows
(`streamgda.models.estimators.scores.RowScores`). `predict_dataset(..., columns=[...])` then writes it to
Parquet and Zarr.
"""
