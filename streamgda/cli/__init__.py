"""The command ``streamgda``: each subcommand is a few lines over the library.

Of libraries, only click is imported at the top of these modules; a command imports others when it runs.

- `main`: the command and its subcommands, each in a file of its name: `fit`, `search`, `update`, `merge`,
  `drop_class`, `refresh`, `predict`, `evaluate`, `inspect`, `plot`.
- `data`, `models`, `ledgers`: the options that say what is read, which model is made, and what a ledger does.
- `options`: how options are declared.
- `running`: the options that say where a pass runs and how a command reports.
- `outputs`: checks, before the work, that a command can write where it is told to.
- `saved`: load and describe saved models and statistics.
- `errors`: errors in one line and in the words of the command line, warnings, Ctrl-C and exit codes.
"""
