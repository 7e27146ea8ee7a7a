"""The command ``streamgda``: each subcommand is a function of a few lines over the library.

In come words of a shell; out come lines of text or JSON, files and an exit code. Open `commands` first.

- `main` makes the commands of the table ``options.json``, and reads the values of options.
- `words`: the table, and messages of the library with options in place of parameters.
- `errors`: errors in one line, warnings, Ctrl-C and exit codes.
- `commands`: the functions, which are imported when one of them runs.
- `from_options`: sources, models and ledgers, as the options say.
- `files`: files that commands write, and what is told of them and of data.
- `running`: where a pass runs, and how a command reports.

The options of a command are the parameters of its function, and of the functions of the library whose
parameters it hands on. ``python -m tests.cli.table`` makes the table from their signatures and the first
sentences on each parameter. The table is committed: help loads no function and parses no docstring, so it is
quick, and whole where docstrings or sources are left out.
"""
