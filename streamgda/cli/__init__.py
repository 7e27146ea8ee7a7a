"""The command ``streamgda``: each subcommand is a few lines over the library.

These modules import only one library at their top: click. A command imports the others when it runs.

- `main`: the command and its subcommands. Each is in the file of its name, except that `merge` and
  `drop_class` are in
  `update`, and `evaluate` is in `predict`.
- `data`, `models`: the options that say which data is read, and which model is made.
- `running`: the options that say where a pass runs and how a command reports.
- `saved`: check, before the work, that a command can write where it is told to; load and describe what is
  saved.
- `options`: how options are declared. The help of one that gives a parameter of the library is its docstring.
- `errors`: errors in one line and in the words of the command line, warnings, Ctrl-C and exit codes.
"""
