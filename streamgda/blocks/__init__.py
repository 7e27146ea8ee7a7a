"""Blocks: rows with their labels and weights, checked and ready to be reduced to statistics.

Every source ends here, so what is refused, dropped or weighted is decided in this room alone.

- `block`: checks rows and cuts them into blocks. `arrays`: does so with arrays and data frames.
- `labels`: class labels and their codes. `folds`: the fold of a row, for cross-validation.
- `places`: what an error calls a row. `wording`: labels, names and numbers in messages.
"""
