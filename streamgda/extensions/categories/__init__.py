"""Columns of a table that are not numbers.

The core finds them by name in `streamgda.data.registry.SCHEMAS` and
`streamgda.data.registry.OPTIONS`.

- `columns`: the categories as a schema, also in SQL and in scikit-learn, and their codes. A missing value is
  a category too, None. `reading`: the option that says which columns are read so, and what models make of
  them.
- `reduction`: the moments of rows, of which the dummies are never made.
- `treatments`: what a model learns from categories, and whether a missing one counts as a category, by the
  parameter `missing` of the model. `densities`: rows scored by it.
- `text`: columns of text that hold dates or numbers, which an error names.
"""
