"""Rows from wherever they are, in blocks.

In come paths, tables, arrays and collections; out come blocks of checked rows with labels and weights.
`sources` describes data and reads it, `blocks` checks rows, `storage` reads and writes files anywhere.
`registry` names what extensions add. Open `sources/base.py` first.
"""
