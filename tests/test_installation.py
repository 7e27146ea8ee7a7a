"""What an installation needs and has: packages that are declared, a version, and no sources."""

import ast
import compileall
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import streamgda
from streamgda import GaussianNB, StatisticsSearchCV

ROOT = Path(streamgda.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

SESSION = """
import numpy as np, streamgda
rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 2)), np.repeat([0, 1], 20)
assert streamgda.LinearDiscriminantAnalysis().fit(X, y).predict(X).shape == (40,)
print("learnt")
"""


def names_in(requirements):
    return {re.match(r"[\w-]+", requirement)[0].lower() for requirement in requirements}


@pytest.mark.slow
def test_what_is_imported_is_declared():
    extras = PROJECT["optional-dependencies"]
    declared = {"hatchling", *names_in(PROJECT["dependencies"])}
    declared |= names_in([*extras["onnx"], *extras["plot"], *extras["private"], *extras["examples"]])
    found = set()
    for path in (ROOT / "streamgda").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module.partition(".")[0])
    found -= {*sys.stdlib_module_names, "streamgda", "packaging"}  # pip brings it to hatchling
    homes = packages_distributions()
    assert {homes.get(name, [name])[0].lower() for name in found} - declared <= {"distributed", "onnx"}


def test_the_version_is_that_of_the_newest_heading_of_the_changelog():
    heading, *_ = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = re.search(r"^## \[(\d+\.\d+)\.\d+\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    version = streamgda.__version__
    if heading == "Unreleased":
        assert version.endswith(".dev0")
        assert version.rpartition(".")[0].rpartition(".")[0] > released
    else:
        assert version == heading


@pytest.mark.slow
def test_packages_of_the_library_are_there_when_they_are_asked_for():
    said = "import streamgda; print(streamgda.plotting.__name__, streamgda.diagnostics.__name__)"
    done = subprocess.run([sys.executable, "-c", said], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "streamgda.plotting streamgda.diagnostics\n"
    assert {"plotting", "diagnostics", "onnx"} <= set(dir(streamgda))
    assert not hasattr(streamgda, "nothing")


def test_the_versions_of_what_it_runs_on_are_printed(capsys):
    streamgda.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"streamgda: {streamgda.__version__}"
    assert f"numpy: {np.__version__}" in lines
    assert not any(line.startswith("pytest") for line in lines)
    assert any("num_threads" in line for line in lines)
    assert lines[-1].endswith(".so")


@pytest.mark.parametrize("estimator", [GaussianNB(), StatisticsSearchCV(GaussianNB(), {})])
def test_a_drawn_estimator_links_to_the_documentation(estimator):
    assert isinstance(estimator, BaseEstimator)
    assert f'href="{PROJECT["urls"]["Documentation"]}"' in estimator._repr_html_()


@pytest.mark.slow  # the package is compiled
@pytest.mark.parametrize("level", [0, 2])
def test_an_image_without_sources_learns_and_helps(tmp_path, level):
    package = tmp_path / "streamgda"
    shutil.copytree(ROOT / "streamgda", package, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(package, quiet=2, legacy=True, optimize=level)
    for pattern in ("*.py", "*.c"):
        for path in package.rglob(pattern):
            path.unlink()

    def run(*words):
        command = [sys.executable, *["-OO"] * (level == 2), *words]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", SESSION) == "learnt\n"
    assert "refresh" in run("-m", "streamgda", "--help")
    said = run("-m", "streamgda", "fit", "--help")
    assert re.search(r"--missing .*\[default:\s+raise\]", said, re.DOTALL)
    assert re.search(r"--exact\b", said)
    assert "--shrinkage auto|oas|bayes|NUMBER" in said
