"""Blocks: rows with their labels and weights, checked and ready to be reduced to statistics.

All rows pass through this room before they are summed up. It alone decides which rows are refused, which are
dropped, and what they weigh.

- `block`: a block of checked rows, how rows are cut into blocks, and the names of rows in errors and their
  folds, for cross-validation. `arrays`: the blocks of an array or a data frame.
- `schema`: what the features of rows are: columns of numbers, or what another room makes of columns.
- `sparse`: rows of which only the values that are not zero are stored.
- `labels`: class labels and their codes. `dates`: dates of any kind as days.
- `records`: rows for a model that has learnt such rows: dicts that leave out keys, and dates as text.
- `parts`: the parts of a source for training and testing.
- `options`: several parameters as one value, which most rooms hand on and one reads.
- `wording`: the messages of errors and warnings.
"""
