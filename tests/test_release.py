"""What must hold before a release is uploaded, and that each part of it stops one that must not be."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = [yaml.load(file.read_text(), yaml.BaseLoader) for file in (ROOT / ".github").glob("*/*.yml")]
JOBS = yaml.load((ROOT / ".github/workflows/release.yml").read_text(), yaml.BaseLoader)["jobs"]


def in_checkout(folder, *command):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "answer"),
    [
        (
            "v1.2.0",
            "1.2.0",
            "## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n\n### Fixed\n\n- A.\n\n## [1.1.0] - x",
            "A.",
        ),
        (
            "v1.2.1",
            "1.2.0",
            "## [Unreleased]\n\n## [1.2.1] - 2027-01-31\n",
            "the tag is v1.2.1, and the version",
        ),
        (
            "1.2.0",
            "1.2.0",
            "## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n",
            "the tag is 1.2.0, and the version",
        ),
        (
            "v1.2.0",
            "1.2.0.dev0",
            "## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n",
            "the version in .* is 1.2.0.dev0",
        ),
        (
            "v1.2.0",
            "1.2.0",
            "## [Unreleased]\n\n## [1.1.0] - 2027-01-31\n",
            r"\[1.1.0\] - 2027-01-31, without 1.2.0",
        ),
        ("v1.2.0", "1.2.0", "## [Unreleased]\n\n## [1.2.0]\n", r"is \[1.2.0\], without 1.2.0 and its day"),
        ("v1.2.0", "1.2.0", "## [Unreleased]\n\n- B.\n\n## [1.2.0] - 2027-01-31\n", "has changes under"),
    ],
)
def test_the_notes_of_a_tag_are_those_of_its_version(tag, version, changelog, answer, tmp_path):
    (tmp_path / "streamgda").mkdir()
    (tmp_path / "streamgda" / "__init__.py").write_text(f'"""A."""\n\n__version__ = "{version}"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{changelog}")
    done = in_checkout(tmp_path, sys.executable, str(ROOT / ".ci" / "notes.py"), tag)
    if answer == "A.":
        assert (done.returncode, done.stdout) == (0, "### Fixed\n\n- A.\n")
    else:
        assert done.returncode == 1
        assert re.search(answer, done.stderr)


def before(job):
    """The jobs without which it does not run."""
    needs = JOBS[job].get("needs", [])
    needs = [needs] if isinstance(needs, str) else needs
    return set(needs).union(*map(before, needs))


def test_nothing_is_uploaded_before_all_gates():
    gates = {"tests", "build", "smoke"}
    uploads = {job for job, made in JOBS.items() if "write" in made.get("permissions", {}).values()}
    assert uploads == {"testpypi", "pypi", "github"}
    assert before("testpypi") == gates
    assert before("pypi") == gates | {"version"}
    assert before("github") == gates | {"version", "pypi"}
    conditions = {job: JOBS[job].get("if") for job in JOBS}
    assert conditions == dict.fromkeys(JOBS) | dict.fromkeys(
        ["version", "pypi"], "github.ref_type == 'tag'"
    ) | {"testpypi": "github.ref_type == 'branch'"}  # none runs in spite of one that failed


def test_actions_are_named_by_a_hash():
    steps = [
        step for flow in WORKFLOWS for job in flow.get("jobs", {}).values() for step in job.get("steps", [])
    ]
    used = {step["uses"] for step in steps if "uses" in step}
    assert len(used) > 5
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)
    assert len({action.partition("@")[0] for action in used}) == len(used), "one version of each"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the repository with one test, and a wheel of it in dist."""
    folder = tmp_path_factory.mktemp("checkout")
    left_out = shutil.ignore_patterns("__pycache__", "reference")
    for name in (".ci", "streamgda", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    (folder / "tests" / "statistics").mkdir(parents=True)
    (folder / "tests" / "statistics" / "test_one.py").write_text("def test_one():\n    import streamgda\n")
    built = in_checkout(folder, sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", "dist", ".")
    assert built.returncode == 0, built.stderr
    return folder


def replace_in_wheel(file, name, content):
    """Write another content of a file of a wheel, and None for none."""
    with zipfile.ZipFile(file) as wheel:
        members = {info: wheel.read(info) for info in wheel.infolist()}
    with zipfile.ZipFile(file, "w") as wheel:
        for info, old in members.items():
            changed = content if info.filename.endswith(name) else old
            if changed is not None:
                wheel.writestr(info, changed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        ("none", "tested"),
        ("a test fails", "1 failed"),
        ("the compiled file is missing", "_sums"),
        ("a module cannot be imported", "SyntaxError"),
        ("the example fails", "no photograph"),
        ("a wheel of another platform", "not tested"),
        ("no wheel", ""),
    ],
)
def test_a_wheel_is_tried_as_it_is_installed(fault, answer, checkout, tmp_path):
    folder = shutil.copytree(checkout, tmp_path / "checkout")
    (wheel,) = (folder / "dist").iterdir()
    match fault:
        case "a test fails":
            (folder / "tests/statistics/test_two.py").write_text("def test_two():\n    assert not 1\n")
        case "the compiled file is missing":
            replace_in_wheel(wheel, "_sums.so", None)
        case "a module cannot be imported":
            replace_in_wheel(wheel, "statistics/kernels/blas.py", b"def f(:")
        case "the example fails":
            (folder / "examples" / "quickstart.py").write_text("raise SystemExit('no photograph')")
        case "a wheel of another platform":
            wheel.rename(wheel.with_name("streamgda-1.0-py3-none-win_amd64.whl"))
        case "no wheel":
            wheel.unlink()
    done = in_checkout(folder, ".ci/smoke")
    assert (done.returncode == 0) == (fault == "none"), done.stdout + done.stderr
    assert answer in done.stdout + done.stderr
