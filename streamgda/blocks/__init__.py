"""Blocks: rows with their labels and weights, checked and ready to be reduced to statistics.

`labels` encodes class labels, `block` checks rows and cuts them into blocks, `arrays` does so with arrays and
data frames. Every source ends here, so what is refused, dropped or weighted is decided in this room alone.
"""
