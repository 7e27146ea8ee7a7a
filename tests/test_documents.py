"""What is written is run: the snippets of the README and the guides, the examples, the API reference."""

import ast
import doctest
import html
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from importlib.metadata import metadata
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from streamgda import accumulate, scan_parquet

ROOT = Path(__file__).parents[1]


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, **options
    ).stdout


GUIDES = ROOT / "examples" / "guides"
WAY_OF_A_FILE = r"streamgda\.(data\.(sources|blocks\.block)|statistics)\b"
START = GUIDES / "getting-started.md"  # which writes the data of all pages, and lists them
FRONT_PAGE = ROOT / "examples" / "index.md"
DOCUMENTS = [ROOT / "README.md", FRONT_PAGE, *sorted(GUIDES.glob("*.md"))]
QUICK = {"README.md", "index.md", "getting-started.md"}  # the others take seconds
OPTIONAL = ["fastapi", "polars", "pyspark", "ray", "river", "torch"]  # not everywhere installed


def name_of(document):
    return str(document.relative_to(ROOT))


def to_follow(document):
    marks = [] if document.name in QUICK else [pytest.mark.slow]
    if document.name == "learning-at-scale.md":  # Spark and Ray warn of their own code
        marks.append(pytest.mark.filterwarnings("default"))
    return pytest.param(document, marks=marks, id=name_of(document))


def assert_shown(printed, written):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(written, printed, flags), f"{printed}\nis not\n{written}"


def run_session(example):
    """Run the commands of a shell session, and compare what each prints with what is written below it."""
    for command, *expected in map(str.splitlines, example.parsed.split("$ ")[1:]):
        is_simple = re.fullmatch(r"streamgda [^;|&<>$]*", command)
        assert_shown((run_here if is_simple else run_in_shell)(command), "\n".join(expected))


def run_here(command):
    from streamgda.cli.main import main

    return CliRunner().invoke(main, shlex.split(command)[1:], prog_name="streamgda").output


def run_in_shell(command):
    define = f'streamgda() {{ {sys.executable} -m streamgda "$@"; }}'
    return subprocess.run(
        ["bash", "-c", f"{define}\n{command}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout


def follow(document, capsys):
    """Run the snippets of a document as a reader would: in order, in one session and the current folder.

    What a snippet prints must be written in the text block below it.
    """

    def compare(example):
        assert_shown(capsys.readouterr().out, example.parsed)

    parsers = [
        PythonCodeBlockParser(),
        CodeBlockParser("console", run_session),
        CodeBlockParser("text", compare),
    ]
    parsed = Sybil(parsers).parse(document)
    parsed.namespace["__name__"] = "__main__"
    for example in parsed.examples():
        if needs_what_is_missing(section_of(example)):
            continue
        if example.region.evaluator is not compare:
            assert not capsys.readouterr().out, f"{document}: output before line {example.line} is not shown"
        example.evaluate()
    assert not capsys.readouterr().out, f"{document}: the last output is not shown"


def section_of(example):
    """What stands below the same heading."""
    text, start = example.document.text, example.region.start
    return text[:start].rpartition("\n## ")[2] + text[start:].partition("\n## ")[0]


def needs_what_is_missing(section):
    if "import psycopg" in section:  # tests/extensions/databases runs it, with a server
        return True
    imported = re.findall(rf"^(?:import|from) ({'|'.join(OPTIONAL)})\b", section, re.MULTILINE)
    return any(find_spec(package) is None for package in imported)


def example(name, *arguments):
    """What an example prints, in this process, which has imported what most of them use."""
    script = ROOT / "examples" / f"{name}.py"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        patch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        runpy.run_path(str(script), run_name="__main__")
    return printed.getvalue()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, in which snippets run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    monkeypatch.setattr("scipy._lib._array_api.SCIPY_ARRAY_API", True)  # which is read at import
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


of_dask = pytest.mark.filterwarnings(
    "ignore:The inplace keyword:DeprecationWarning"
)  # dask.dataframe on pandas 3.1


@of_dask
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("document", [to_follow(document) for document in DOCUMENTS])
def test_the_snippets_of_a_document_run_in_order(document, capsys):
    if document.parent == GUIDES and document != START:
        follow(START, capsys)
    follow(document, capsys)


@of_dask
@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.filterwarnings("default")  # Spark and Ray warn of their own code
def test_all_documents_run_in_one_folder_in_the_order_in_which_they_are_read(capsys):
    for document in [ROOT / "README.md", START, *(GUIDES / name for name in pages_listed())]:
        follow(document, capsys)


def pages_listed():
    """The pages that the first one lists, in its order."""
    return list(dict.fromkeys(re.findall(r"\]\(([\w-]+\.md)\)", START.read_text())))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_options_in_the_text_are_those_of_a_command(document):
    from streamgda.cli.main import main

    commands = [(command, click.Context(command)) for command in main.commands.values()]
    options = {name: (one, context) for command, context in commands
               for one in command.get_params(context) for name in one.opts}  # fmt: skip
    for inline in re.findall(r"`(--\w[^`]*)`", document.read_text()):
        name, *values = shlex.split(inline)
        option, context = options.get(name, (None, None))
        assert option or name == "--debug", inline
        for value in values:
            option.type.convert(value, option, context)


def test_the_first_page_lists_all_others():
    assert set(pages_listed()) == {guide.name for guide in GUIDES.glob("*.md")} - {START.name}


ELSEWHERE = {"prometheus_client", "psycopg", "pyspark", "ray"}  # whose sections name them


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(GUIDES.glob("*.md"))], ids=name_of)
def test_a_page_names_the_extra_that_its_snippets_import(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    always = named_in(project["dependencies"]) | {"distributed", "sklearn", "streamgda"}
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    imported = (
        set(re.findall(r"^\s*(?:import|from) (\w+)\b(?!\()", code, re.MULTILINE)) - sys.stdlib_module_names
    )
    more = imported - always - ELSEWHERE
    assert more <= named_in(extras["examples"] + extras["onnx"])
    assert bool(more) == ('".[examples]"' in page.read_text().partition("\n## ")[0])


def named_in(requirements):
    return {re.match(r"\w+", one)[0] for one in requirements}


def test_the_guides_are_read_in_an_hour():
    assert sum(len(guide.read_text().split()) for guide in GUIDES.glob("*.md")) <= 18_000


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=name_of)
def test_links_lead_somewhere(document):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", document.read_text()):
        there = document.parent / target if target else document
        assert there.exists(), target
        assert not anchor or anchor in anchors_of(there), f"{target}#{anchor}"


def anchors_of(document):
    """The anchors that GitHub gives to the headings."""
    headings = re.findall(r"^#+ (.*)", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_of_the_readme_lead_to_the_repository_where_the_package_is_shown():
    links = re.findall(r"\]\((.+?)\)", metadata("streamgda")["Description"])
    assert len(links) >= 10
    assert all(link.startswith("https://") for link in links)


def test_the_picture_of_the_rooms_is_drawn_from_the_imports():
    package = ROOT / "streamgda"
    rooms = {file.parent.name for file in package.glob("*/__init__.py")}
    below = {
        room: set().union(*map(imported_by, (package / room).rglob("*.py"))) & rooms - {room}
        for room in rooms
    }
    arrows = {
        f"    {room} --> {other}"
        for room in rooms
        for other in below[room] - set().union(*(below[between] for between in below[room]))
    }
    page = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    shown = page.partition("```mermaid\n")[2].partition("```")[0].splitlines()
    assert sorted(shown) == ["    " + line.strip() for line in sorted(arrows)] + ["flowchart TD"]
    assert {room for room in rooms if f"| `{room}` |" in page} == rooms


def imported_by(file):
    """The rooms that a file imports from, within functions too."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    return {name.split(".")[1] for name in modules if name.startswith("streamgda.")}


def test_the_way_of_a_file_is_drawn_from_a_pass(tmp_path):
    frame = pd.DataFrame({"a": np.arange(40.0), "y": np.arange(40) % 2})
    frame.to_parquet(tmp_path / "1.parquet", row_group_size=10)
    stations = ["Listing", "RowGroups", "RecordBatch", "Block", "ClassStatistics"]
    names, arrows = ["path", "listing", "row_groups", "batch", "block", "state"], []

    def note(frame, event, value):
        module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
        if event == "return" and len(arrows) < len(stations) and re.match(WAY_OF_A_FILE, module):
            value = value[0] if isinstance(value, list | tuple) and value else value
            is_made = type(value).__name__ == stations[len(arrows)]
            if is_made and not re.search("<|__|_twin", function):
                where = module.removeprefix("streamgda.").replace(".", "/")
                before, after = names[len(arrows)], names[len(arrows) + 1]
                arrows.append(f'{before} -- "{where}.py: {function}" --> {after}')

    sys.setprofile(note)
    try:
        accumulate(scan_parquet(tmp_path, "y"), scheduler="synchronous")
    finally:
        sys.setprofile(None)
    page = (ROOT / ".github" / "CONTRIBUTING.md").read_text().partition("## The way of a file")[2]
    shown = page.partition("```mermaid\n")[2].partition("```")[0].splitlines()
    assert [line.strip() for line in shown] == ["flowchart LR", *arrows]


def test_the_table_of_minutes_has_the_steps_of_ci():
    steps = re.findall(r'^step "(.+)"$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    page = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    assert re.findall(r"^\| (.+?) \| (?:–|[\d.]+) \|$", page, re.MULTILINE) == steps


def test_the_changelog_keeps_its_form():
    text = (ROOT / "CHANGELOG.md").read_text()
    for version in text.split("\n## ")[1:]:
        kinds = re.findall(r"^### (\w+)$", version, re.MULTILINE)
        assert kinds == [kind for kind in ("Added", "Changed", "Removed", "Fixed") if kind in kinds]
    entries = re.findall(r"^- .*", text, re.MULTILINE)
    assert len(set(entries)) == len(entries)


def test_the_functions_whose_time_is_measured_are_where_the_benchmark_looks_for_them():
    program = ast.parse((ROOT / "bench" / "parts.py").read_text())
    named = {node.target.id: node.value for node in program.body if isinstance(node, ast.AnnAssign)}
    for path, name in chain.from_iterable(ast.literal_eval(named["PARTS"]).values()):
        (file,) = (ROOT / "streamgda").rglob(path.removeprefix("streamgda/"))
        nodes = ast.walk(ast.parse(file.read_text()))
        assert name in {node.name for node in nodes if isinstance(node, ast.FunctionDef)}, path


def test_the_speeds_of_the_readme_are_those_measured():
    section = (ROOT / "README.md").read_text().split("## How fast it is")[1].split("\n## ")[0]
    seconds = re.findall(r"(?<=\| )[\d.]+(?= \|)", section)
    measured = (ROOT / "bench" / "RESULTS.md").read_text().split("<!-- fit -->")[1].split("<!--")[0]
    assert len(seconds) > 8
    peaks = re.findall(r"\d+ MB(?= above| for)", section)
    assert len(peaks) > 1
    assert set(seconds) <= set(re.findall(r"[\d.]+", measured))
    assert all(peak in measured for peak in peaks)


def test_each_release_keeps_what_was_measured():
    released = re.findall(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    kept = {file.stem for file in (ROOT / "bench" / "releases").glob("*.json")}
    assert kept == set(released)


@pytest.mark.slow
def test_the_site_has_all_public_names_and_displays(tmp_path):
    import streamgda
    from streamgda import diagnostics, plotting

    sources = shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=lambda *_: ["reference"])
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", str(sources), str(tmp_path / "site")]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    for module in (streamgda, plotting, diagnostics):
        for name in module.__all__:
            page = (tmp_path / "site" / "reference" / f"{module.__name__}.{name}.html").read_text()
            summary = getattr(module, name).__doc__.splitlines()[0]
            words = " ".join(re.sub(r"<[^>]+>", "", page).split())
            plain = html.unescape(words).translate(QUOTES)
            assert " ".join(summary.replace("`", "").translate(QUOTES).split()) in plain, name
            assert "Added in version" not in plain  # of scikit-learn
    for name in plotting.__all__:
        assert (tmp_path / "site" / "_images" / f"{name}.png").stat().st_size > 5_000


QUOTES = str.maketrans("“”‘’", "\"\"''")


@pytest.mark.slow
def test_the_quickstart_reports_three_models(tmp_path):
    printed = example("quickstart", tmp_path)
    assert "27 features" in printed
    for name in ("QuadraticDiscriminantAnalysis", "LinearDiscriminantAnalysis", "GaussianNB"):
        line = next(line for line in printed.splitlines() if name in line)
        assert float(line.split()[-1].rstrip("%")) > 60


@pytest.mark.slow
def test_the_textbook_comparison_judges_and_draws_three_models(tmp_path):
    printed = example("textbook_comparison", tmp_path).splitlines()
    assert [line[:12].strip() for line in printed] == ["", "QDA", "LDA", "naive Bayes"]
    assert all(float(line[12:].split()[0].rstrip("%")) > 85 for line in printed[1:])
    assert_is_picture(tmp_path / "textbook_comparison.png")


def test_iris_with_two_features_shows_the_model_and_its_boundary(tmp_path):
    printed = example("iris_two_features", tmp_path)
    assert "accuracy 98.0%" in printed
    assert "8.39 x² -40.49 xy +53.37 y² -11.49 x +45.83 y -40.23 > 0" in printed
    assert "4.5 × 1.5 cm: nothing special" in printed
    assert "9.0 × 0.2 cm: an outlier" in printed
    assert_is_picture(tmp_path / "iris_two_features.png")


def test_a_class_that_appears_late_is_first_strange_then_known():
    batches = [line.split() for line in example("late_class").splitlines()[2:]]
    first = next(i for i, (_, late, *_) in enumerate(batches) if int(late))
    wines, late, right, unlike, known = batches[first]
    assert (wines, unlike, right, known) == (late, late, "0%", "2")
    assert batches[first + 1][2:] == ["100%", "3", "3"]


@pytest.mark.slow
def test_a_model_is_found_again_in_a_zarr_group(tmp_path):
    printed = example("zarr_store", tmp_path)
    assert "rows=1000000" in printed
    assert float(printed.split()[-1]) < 0.003


@pytest.mark.slow
def test_a_cluster_fits_judges_and_scores_parquet(tmp_path):
    printed = example("cluster_scoring", tmp_path).splitlines()
    assert printed[0] == "400000 rows learnt, of 4 classes, by 2 worker processes"
    assert float(printed[1].split()[-1].rstrip("%")) > 90
    assert "PredictionSummary(n_rows=500000, n_parts=10, n_found=0, n_dropped=0)" in printed[2]
    assert printed[-1] == "rows in the order of the input: True"


def assert_is_picture(path):
    from PIL import Image

    with Image.open(path) as picture:
        assert picture.width > 400
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 100


def test_the_nightly_refresh_reads_one_file_a_night_and_tells_what_changed(tmp_path):
    printed = example("nightly_refresh", tmp_path)
    assert printed.count("read 1 file (1 new, 0 changed)") == 4
    assert "reused 2, dropped 1" in printed
    assert "new classes: melon" in printed
    assert printed.splitlines()[-1] == "a fruit of 700 g and 14 cm is a melon"


@pytest.mark.slow
def test_forgetting_leaves_no_trace():
    printed = example("exact_forgetting").splitlines()
    digests = [line.split()[-1] for line in printed if "sha256" in line]
    assert len(digests) == 4
    assert digests[0] == digests[1] == digests[3] != digests[2]
    assert "the same model: True" in printed[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("peer", "names"), [("sys", "__version__ ClassStatistics accumulate"), ("sklearn.base", "GaussianNB")]
)
def test_dask_zarr_and_pyarrow_load_when_they_are_used(peer, names):
    """Beyond what scikit-learn loads of them for its own estimators' sake."""
    use = "; ".join(f"streamgda.{name}" for name in names.split())
    code = f"import {peer}, sys; before = set(sys.modules); import streamgda; {use}"
    code += "; print(*set(sys.modules) - before)"
    loaded = set(run("-c", code, env={**os.environ, "PYTHONPATH": str(ROOT)}).split())
    assert "streamgda" in loaded
    assert not loaded & {"dask", "distributed", "zarr", "pyarrow", "tqdm"}
    assert "sklearn.linear_model" not in loaded  # which takes a tenth of the time of the rest


@pytest.mark.slow
def test_a_pass_in_threads_does_without_distributed_and_scikit_learn():
    code = "import pyarrow as pa, sys; from streamgda import accumulate, scan_arrow; "
    code += "accumulate(scan_arrow(pa.table({'x': [1.0, 2.0], 'y': [0, 1]}), 'y'), 'diag'); "
    code += "print({'distributed', 'sklearn', 'scipy.stats'} & set(sys.modules))"
    assert run("-c", code, env={**os.environ, "PYTHONPATH": str(ROOT)}).split() == ["set()"]


def test_the_public_names_are_there():
    """Those by which users import something, as api.md lists them."""
    import streamgda

    page = (ROOT / "examples" / "api.md").read_text().partition(".. currentmodule:: streamgda.")[0]
    names = set(dir(streamgda)) - {"diagnostics", "onnx", "plotting"}
    assert names == set(re.findall(r"^   (\w+)$", page, re.MULTILINE))
    for name in dir(streamgda):
        assert getattr(streamgda, name).__doc__
    with pytest.raises(AttributeError, match="nosuch"):
        _ = streamgda.nosuch
