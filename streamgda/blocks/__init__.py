"""Blocks: rows with their labels and weights, checked and ready to be reduced to statistics.

Every source ends here, so what is refused, dropped or weighted is decided in this room alone.

- `block`: checks rows, cuts them into blocks, and knows where they stand. `arrays`: does so with arrays and
  data frames; `frames`: what the libraries of frames have in common.
- `labels`: class labels and their codes. `folds`: the fold of a row, for cross-validation.
- `wording`: labels, names and numbers in messages.
"""
