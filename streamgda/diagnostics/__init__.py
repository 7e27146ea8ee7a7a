"""Diagnostics: what statistics say about the classes and their features, without reading the rows again.

Each is a function of a state, and returns a small frozen object of its own. As a string it is a readable
table; `to_pandas` gives the table as a data frame.

- `tables`: what results have in common.

To add one, write a module with a function of statistics and its result, a subclass of
`streamgda.diagnostics.tables.Table`, and import both here.
"""
