"""Statistics of tables whose rows stay in their database: `learning` asks for sums alone.

`connecting` opens a database by its URL. How each database writes a statement is in
`streamgda.models.estimators.dialects`, which models need too.
"""
