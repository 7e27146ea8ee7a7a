"""Messages of the library in the words of the command line: ``--missing drop`` for ``missing='drop'``."""

from __future__ import annotations

import ast
import re

_OPTIONS = (
    "columns|covariance_type|em_tol|exact|exclude|features|fourth_moments|half_life|keep|max_patterns|missing|"
    "pooling|predictive|priors|reg_param|scheduler|shrinkage|since|singular|target|var_smoothing|weight|where"
)

_OF_MODELS = {
    *("covariance_type", "em_tol", "exact", "max_patterns", "pooling", "predictive", "priors"),
    *("reg_param", "shrinkage", "singular", "var_smoothing"),
}

_ARGUMENT = re.compile(rf"\b({_OPTIONS})=(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[\w.]+)")

_PYTHON_ONLY = re.compile(
    r"; statistics_\.drop_class\([^)]*\) forgets it"
    r"|\. Where classes may appear later, give priors by label, .*? forgets a class"
    r"|(?<=not full rank\. )When using `solver='svd'` .*? for regularization\. "
    r"|(?<=not full rank\. )Increase the value of .*? the collinearity\. "
)

_PHRASES = {
    "scan it with features=list(model.feature_names_in_)": "leave out --features, or name them in its order",
    "name them where it is scanned": "name them",
    "set_params(missing='marginal')": "--missing marginal",
    "as a source does with": "with",
    "a model's missing=": "missing=",
    ", or accumulate a source with missing='keep'": "",
    "accumulate with": "fit or refresh with",
    "accumulate both with": "fit both with",
    "let all candidates have missing='marginal', and learn": "learn, with --missing marginal,",
    "; or, to learn from it as it is, use": "; or learn from it in Python, by",
    "filters: ": "--filter: ",
    "age: ": "--age: ",
    "leave half_life out": "leave --half-life out",
}

_AS_OPTIONS = {
    "Raise max_reads or em_tol, or max_patterns": "Raise --max-reads or --em-tol, or --max-patterns",
    "Raise max_patterns": "Raise --max-patterns",
    "Set reg_param": "Set --reg-param",
    "Raise reg_param": "Raise --reg-param",
    "or reg_param": "or --reg-param",
    "set shrinkage": "set --shrinkage",
    "Set shrinkage to 'auto'": "Set --shrinkage auto",
    "Set shrinkage": "Set --shrinkage",
    "set var_smoothing": "set --var-smoothing",
    "or use LinearDiscriminantAnalysis or GaussianNB": "or use --model lda or --model nb",
}

_AS_TRIED = {
    "Set shrinkage to 'auto'": "Set shrinkage=auto",
    "or use LinearDiscriminantAnalysis or GaussianNB": "or try lda or nb",
}


def in_shell_words(message: str, *, as_tried: bool = False) -> str:
    """A message of the library with the arguments of Python written as options.

    Those of models are written as ``--try`` takes them, if a message is about candidates.
    """
    for python, shell in (_PHRASES | (_AS_TRIED if as_tried else _AS_OPTIONS)).items():
        message = message.replace(python, shell)
    message = _PYTHON_ONLY.sub("", message)
    return _ARGUMENT.sub(lambda match: _argument(match[1], match[2], as_tried), message)


def _argument(name: str, value: str, as_tried: bool) -> str:
    if as_tried and name in _OF_MODELS:
        return f"{name}={_unquoted(value)}"
    option = "--" + name.replace("_", "-")
    if value in ("True", "False"):
        return option if value == "True" else f"no {option}"
    if value.startswith("["):
        return f"{option} {_names(value)}"
    return f"{option} {_unquoted(value)}"


def _unquoted(value: str) -> str:
    return value.strip("'\"")


def _names(value: str) -> str:
    """A list of Python with commas between the names."""
    names = ast.literal_eval(value)
    return ",".join(f'"{name}"' if "," in str(name) else str(name) for name in names)
