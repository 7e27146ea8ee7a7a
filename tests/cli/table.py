"""The table of the options of the command line: ``python -m tests.cli.table`` writes it anew."""

import inspect
import json
import re
from collections.abc import Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from numpydoc.docscrape import NumpyDocString
from sklearn.utils._param_validation import Interval, StrOptions

import streamgda
from streamgda.cli import commands
from streamgda.data.sources.base import Source
from streamgda.jobs.ledger.drift import DriftReport
from streamgda.models.estimators import ESTIMATORS

TABLE = Path(commands.__file__).with_name("options.json")

GROUP = """Gaussian discriminant analysis of data that does not fit in memory or never stops coming.

Learn models from files of Parquet, CSV, JSON lines, Feather and ORC, and from Zarr stores, of any size in one
read, save them as small Parquet files, update them with more data, and predict.

The exit code is 0 if all went well, 1 for bad data, 2 for bad usage, 3 if a refresh is
refused, 4 if it has left out files that cannot be read, and 130 after Ctrl-C. Errors are one line; --debug,
which each command takes, shows where they come from.

For completion by the tab key: eval "$(_STREAMGDA_COMPLETE=bash_source streamgda)" in ~/.bashrc;
zsh_source and fish_source likewise.

Examples
--------
streamgda fit monday.parquet --target kind --out model.parquet
streamgda update model.parquet tuesday.parquet --target kind
streamgda predict model.parquet wednesday.parquet --out scored
streamgda evaluate model.parquet labelled.parquet --target kind
streamgda COMMAND --help
"""

COMMANDS = ["fit", "search", "update", "merge", "refresh", "predict", "evaluate", "inspect"]

OF_STATE = "source covariance_type fourth_moments exact missing rule"  # which models and sources say

PLACES = {  # the functions of the library, and their parameters that are no options
    "scan": (
        streamgda.scan,
        "path target features exclude categories weight filters filesystem missing hive_types",
    ),
    "scan_parquet": (streamgda.scan_parquet, "path filesystem"),
    "run": (streamgda.accumulate, f"{OF_STATE} rows_per_task retries checkpoint"),
    "accumulate": (streamgda.accumulate, f"{OF_STATE} progress scheduler"),
    "ledger": (streamgda.StatisticsLedger, "path missing rule filesystem"),
    "refresh": (streamgda.StatisticsLedger.refresh, "source scheduler progress exclude limits"),
    "alarms": (DriftReport.alarms, ""),
    "predict": (streamgda.predict_dataset, "model source out costs filesystem scheduler progress"),
    "evaluate": (streamgda.evaluate, "model source y sample_weight costs scheduler progress"),
    "split": (Source.split, "random_state"),  # which models have too
    "search": (streamgda.StatisticsSearchCV, "estimator param_grid refit error_score"),
}

OF_MODELS = "missing categories features covariance_estimator"  # the first three are options of a scan

PARTS = {"categories": (streamgda.Categorical, "columns"), "subclasses": (streamgda.Subclasses, "n")}

MODEL = (
    "Quadratic or linear discriminant analysis, Gaussian naive Bayes, the best of fourteen models of the "
    "covariances, or a mixture for each class.  [default: qda; of merge, that of the files; of refresh, that "
    "at --out]"
)

REPORT = {
    "json": "Report as one JSON document on stdout.",
    "quiet": "Write nothing but errors, the results of evaluate, inspect and --json, and that of search "
    "without --out.",
    "debug": "Show the traceback of an error.",
}

SPECIAL = {
    "missing": "raise|drop|marginal",
    "format": "FORMAT",
    "filters": "COLUMN>=VALUE",
    "categories": "A,B,...",
    "hive_types": "KEY=TYPE,...",
    "scheduler": "ADDRESS",
    **dict.fromkeys(("groups", "fold"), "TEXT"),
    **dict.fromkeys(("out", "leave_out", "tried", "html"), "FILE"),
}

KINDS = {Sequence: "A,B,...", str: "TEXT", float: "NUMBER", int: "INTEGER"}

FLAGS = {"filters": ["--filter"], "tried": ["--try"], "quiet": ["-q", "--quiet"]}

SEVERAL, REPEATED = {"A,B,...", "COLUMN>=VALUE"}, {"leave_out", "tried"}

RENAMED = {
    "--skip-unreadable": "--on-error skip",
    "--reject": "--leave-out",
    "--n-subclasses": "--subclasses",
    "--categorical": "--categories",
    "--categorical-model": "--categories-model",
    "--max-categories": "--categories-max-categories",
    "--max-patterns": "--missing 'marginal max_patterns=...'",
    "--max-reads": "--missing 'marginal max_reads=...'",
    "--em-tol": "--missing 'marginal tol=...'",
}


def table():
    """Commands, with their options by place and name; and the settings of click for each option."""
    functions = {name: getattr(commands, name) for name in COMMANDS}
    places = {place: described(function, without.split()) for place, (function, without) in PLACES.items()}
    places |= {
        "model": {"model": option("model", "MODEL", MODEL), **of_models()},
        "report": {name: option(name, "FLAG", text, False) for name, text in REPORT.items()},
        **{f"{name}!": described(function, arguments_of(function)) for name, function in functions.items()},
    }
    for one in places["split"].values():  # all rows are read unless one of them is given
        one["help"] = one["help"].partition("  [default")[0]
    places["run"]["progress"] |= {"param_decls": ["--progress/--no-progress"], "default": None}
    return {
        "renamed": RENAMED,
        "help": help_of(GROUP),
        "commands": {
            name: {
                "help": help_of(inspect.getdoc(function)),
                "arguments": arguments_of(function),
                "options": offered(name, function, places),
            }
            for name, function in functions.items()
        },
        "options": places,
    }


def option(name, kind, text, default=None, *, required=False):
    """The settings of click for an option."""
    flags = FLAGS.get(name, ["--" + re.sub("_+", "-", name)])
    settings = {"param_decls": [*flags, name], "help": text}
    if default:
        settings["help"] += f"  [default: {','.join(default) if isinstance(default, list) else default}]"
    if required:
        settings["required"] = True
    if kind == "FLAG":
        return {**settings, "is_flag": True, "default": default} | (
            {"param_decls": [f"{flags[0]}/--no{flags[0][1:]}", name]} if default else {}
        )
    settings["type"] = kind
    if isinstance(kind, list):
        return {**settings, "is_flag": False, "flag_value": kind[0]} if len(kind) == 1 else settings
    return settings | {"metavar": kind} | ({"multiple": True} if kind in SEVERAL or name in REPEATED else {})


def offered(name, command, places):
    """The options of a command. Where two functions have a parameter of one name, the first one gets it."""
    found = {option: f"{name}!.{option}" for option in places[f"{name}!"]}
    others = [
        (one or kind, one and kind)
        for one, kind, _ in NumpyDocString(inspect.getdoc(command))["Other Parameters"]
    ]
    for place, but in [*others, ("report", "")]:
        for option in places[place]:
            if option not in but.removeprefix("but ").split(", "):
                found.setdefault(option, f"{place}.{option}")
    return list(found.values())


def arguments_of(command):
    """How many values each argument of a command takes; -1 for any number."""
    hints, parameters = get_type_hints(command), inspect.signature(command).parameters
    positional = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    return {name: -1 if get_origin(hints[name]) is Sequence else 1 for name in positional}


def of_models():
    """The options of the parameters of all the estimators, each as the first one describes it."""
    found, having = {}, {}
    for name, entry in ESTIMATORS.items():
        for parameter, (kind, text, default, _) in parameters_of(
            getattr(streamgda, name), OF_MODELS.split()
        ).items():
            having.setdefault(parameter, []).append(entry.option)
            first = found.setdefault(parameter, [kind, text, default])
            if isinstance(kind, list):
                first[0] = list(dict.fromkeys([*first[0], *kind]))
            elif "|" in kind:  # words, and the kind of other values
                kinds = dict.fromkeys(f"{first[0]}|{kind}".split("|"))
                first[0] = "|".join(sorted(kinds, key=str.isupper))
            first[2] = default if first[2] == default else None
    found = {
        name: option(name, kind, f"{', '.join(having[name])}: {text}", default)
        for name, (kind, text, default) in found.items()
    }
    for part, (function, without) in PARTS.items():
        for name, (kind, text, default, _) in parameters_of(function, without.split()).items():
            found[f"{part}__{name}"] = option(f"{part}__{name}", kind, text, default)
    return found


def described(function, without):
    found = parameters_of(function, without)
    return {
        name: option(name, kind, text, default, required=required)
        for name, (kind, text, default, required) in found.items()
    }


def parameters_of(function, without):
    """The kind, the first sentence and the default of each parameter, and whether it must be given."""
    is_plain_class = isinstance(function, type) and not is_dataclass(function)
    hints = get_type_hints(inspect.unwrap(function.__init__ if is_plain_class else function))
    constraints, said = getattr(function, "_parameter_constraints", {}), sentences(function)
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in (*without, "self"):
            kind = SPECIAL.get(name) or kind_of(hints[name], constraints.get(name, []))
            required = parameter.default is parameter.empty
            found[name] = kind, said[name], plain(parameter.default), required
    return found


def kind_of(hint, constraints):
    """The kind of a value, as `streamgda.cli.main` reads it; or the words that an option may have."""
    kinds = atoms(hint)
    words = [kind for kind in kinds if isinstance(kind, str)]
    for one in constraints:
        words += sorted(set(one.options) - set(words)) if isinstance(one, StrOptions) else []
        kinds += [{"Real": float, "Integral": int}[one.type.__name__]] if isinstance(one, Interval) else []
    if bool in kinds:
        return "FLAG"
    found = [kind for type_, kind in KINDS.items() if type_ in kinds and not (words and type_ is str)]
    return "|".join([*words, found[0]]) if words and found else words or (found or ["VALUE"])[0]


def atoms(hint):
    """The types and the words of which a type is the union."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        parts = [atom for part in get_args(hint) for atom in atoms(part)]
        return [Any] if bytes in parts else parts  # of an array-like
    if get_origin(hint) is Sequence:
        (of,) = get_args(hint)
        return [Sequence] if of is str or get_origin(of) is Literal else [of]
    return [hint]


def plain(default):
    if default in (inspect.Parameter.empty, (), None):
        return None
    return list(default) if isinstance(default, tuple) else default


def sentences(function):
    """The first sentence on each parameter, as a terminal shows it."""
    found = {}
    for names, kind, lines in NumpyDocString(inspect.getdoc(function))["Parameters"]:
        text = " ".join(" ".join(lines).split())
        text = re.sub(r"; see (the parameter )?`[^`]*`| \(`[^`]*`\)|: - .*", "", text)
        text = re.sub(r"``(\w+)=\"(\w+)\"``", r"--\1 \2", text).replace("`", "")
        found |= dict.fromkeys((names or kind).split(", "), re.split(r"(?<=\.) ", text)[0])
    return found


def help_of(docstring):
    """What a command does, with examples as click keeps them."""
    document = NumpyDocString(docstring)
    lines = [*document["Summary"], "", *document["Extended Summary"], "", "\b", "Examples:"]
    return "\n".join([*lines, *(f"  {line}" for line in document["Examples"] if line)])


def written(document, depth=3):
    """JSON with a line for each option and for each command's part."""
    if depth == 0 or not isinstance(document, dict):
        return json.dumps(document, ensure_ascii=False)
    deeper = {name: depth - 1 if name in ("options", "commands") or depth < 3 else 0 for name in document}
    entries = (f"{json.dumps(name)}: {written(value, deeper[name])}" for name, value in document.items())
    return "{\n" + ",\n".join(entries) + "\n}"


if __name__ == "__main__":
    TABLE.write_text(written(table()) + "\n", encoding="utf-8")
