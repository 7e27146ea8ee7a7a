"""Columns: which are features, target and weight, and how others than numbers become features.

In come names and types; out come `Roles`, which say how the columns of a batch are read. Open `roles` first.

- `roles`: which columns have which part. `choosing`: how a user chooses them, and whether files have such
  columns. `names`: how they are named. `types`: what they can be by their types and first rows.
- `expressions`: over columns, for filters and computed features.
- `encoding`: how columns of text become features, and `lists` how columns of lists do.
- `stored`: columns as they are stored, for maps.
"""
