"""The command ``streamgda``: each subcommand is a few lines over the library.

These modules import only one library at their top: click. A command imports the others when it runs.

- `main`: the command and its subcommands. `fit`, `update` and `merge` are in `learn`;
  `predict` and `evaluate` in `predict`; `inspect` in `saved`; the others in the file of their name.
- `data`: the options that say which data is read, and which model is made of it.
- `running`: the options that say where a pass runs and how a command reports, and how options are declared.
  If an option sets a parameter of the library, its help text comes from the docstring of the library.
- `saved`: check before the work that the output can be written; load and describe saved models, statistics
  and ledgers.
- `errors`: errors in one line and in the words of the command line, warnings, Ctrl-C and exit codes.
"""
