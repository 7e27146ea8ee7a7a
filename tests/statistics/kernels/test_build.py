"""The library is that of the C file, and computes the same bits from every compiler."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamgda.statistics import kernels
from streamgda.statistics.kernels import build

ZIG = importlib.util.find_spec("ziglang")
COMPILER = build.find_compiler()
COMPILERS = {
    "found": COMPILER,
    "of this processor": COMPILER and [*COMPILER, "-march=native"],
    "linked whole": COMPILER and sys.platform == "linux" and [*COMPILER, "-Wl,-z,defs"],
    "zig": ZIG and build.zig_compiler(),
}
COMPILERS = {name: command for name, command in COMPILERS.items() if command}

BITS = """
import numpy as np
from streamgda import ClassStatistics, RandomFeatures

rng = np.random.default_rng(0)
for n_rows, n_features, n_classes in [(5000, 7, 4), (3000, 5, 600), (700, 40, 3)]:
    X, y = rng.normal(3, 1, (n_rows, n_features)), rng.integers(n_classes, size=n_rows)
    for rows in X, np.asfortranarray(X), X.astype(np.float32), (100 * X).astype(int):
        for kind in "full", "tied", "diag":
            for weights in None, rng.random(n_rows):
                print(ClassStatistics(kind).update(rows, y, weights).digest())
    for kind in "fourier", "relu":
        print(RandomFeatures(90, kind).fit(X).transform(X).tobytes().hex())
"""


def hash_of(library: Path) -> int:
    return ctypes.c_uint64.in_dll(ctypes.CDLL(str(library)), "source_hash").value


def test_the_library_is_of_this_c_file():
    library = build.SOURCE.with_name(build.LIBRARY)
    again = f"run python {build.SOURCE.with_name('build.py')}, or install streamgda again"
    assert library.exists(), again
    assert hash_of(library) == build.source_hash(), f"{library} is of another sums.c: {again}"


@pytest.mark.slow
def test_bits_are_the_same_from_every_compiler(tmp_path):
    if len(COMPILERS) < 2:
        pytest.skip("there is one compiler")
    results = set()
    for name, command in COMPILERS.items():
        library = tmp_path / name
        build.compile_library(build.SOURCE, library, command)
        environment = os.environ | {"STREAMGDA_SUMS": str(library)}
        done = subprocess.run([sys.executable, "-c", BITS], env=environment, check=True, capture_output=True)
        assert done.stdout.count(b"\n") == 78
        results.add(done.stdout)
    assert len(results) == 1


TARGETS = ["x86_64-linux-gnu.2.17", "aarch64-linux-musl", "aarch64-macos.11.0", "x86_64-windows-gnu"]


@pytest.mark.skipif(not ZIG, reason="needs ziglang")
@pytest.mark.parametrize("target", TARGETS)
def test_the_c_file_needs_no_library_on_any_platform(target, tmp_path):
    strict = [*build.zig_compiler(target), "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    if "linux" in target:
        strict.append("-Wl,-z,defs")  # as linkers of other platforms do
    build.compile_library(build.SOURCE, tmp_path / "library", strict, target.split("-")[1])


@pytest.fixture
def room(tmp_path):
    """A copy of what is compiled, and the environment of a machine without a compiler."""
    shutil.copy(build.SOURCE, tmp_path)
    shutil.copy(build.__file__, tmp_path)
    empty = tmp_path / "bin"
    empty.mkdir()
    return tmp_path, {name: value for name, value in os.environ.items() if name != "CC"} | {
        "PATH": str(empty)
    }


def compiled(folder, environment):
    """Run the script without packages, so without Zig."""
    script = [sys.executable, "-IS", str(folder / "build.py")]
    return subprocess.run(script, env=environment, check=False, capture_output=True, text=True)


def test_a_machine_without_compiler_and_zig_is_told_what_to_install(room):
    folder, bare = room
    done = compiled(folder, bare)
    assert done.returncode
    assert (
        "cc, gcc or clang on the PATH, or one that CC names. Install one, or Zig's: pip install ziglang=="
        in (done.stderr)
    )


@pytest.mark.slow
@pytest.mark.skipif(not COMPILER, reason="needs a C compiler")
def test_the_script_compiles_again_after_a_change(room):
    folder, _ = room
    assert compiled(folder, os.environ).returncode == 0
    before = (folder / build.LIBRARY).rename(folder / "before")
    with (folder / "sums.c").open("a") as file:
        file.write("/* changed */\n")
    assert compiled(folder, os.environ).returncode == 0
    after = (folder / build.LIBRARY).rename(folder / "after")  # a name is loaded once in a process
    assert hash_of(before) == build.source_hash() != hash_of(after)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_a_compiler_that_does_not_work_is_passed_over(room):
    folder, bare = room
    failing = folder / "bin" / "cc"
    failing.write_text(f"#!{sys.executable}\nraise SystemExit('no C compiler is installed')\n")
    failing.chmod(0o755)
    assert compiled(folder, bare).returncode
    (folder / "bin" / "gcc").symlink_to(shutil.which("gcc"))
    bare["PATH"] += f":{os.environ['PATH']}"  # gcc's assembler and linker
    assert compiled(folder, bare).returncode == 0


@pytest.mark.skipif(not COMPILER, reason="needs a C compiler")
@pytest.mark.parametrize("flags", [["-ffast-math"], ["-ffinite-math-only"]])
def test_a_compiler_that_rounds_otherwise_is_refused(tmp_path, flags):
    with pytest.raises(RuntimeError, match="compile without -ffast-math"):
        build.compile_library(build.SOURCE, tmp_path / "library", [*COMPILER, *flags])


@pytest.mark.skipif(not ZIG, reason="needs ziglang")
@pytest.mark.parametrize("target", ["arm-linux-gnueabihf", "x86-linux-gnu"])
def test_addresses_of_32_bits_are_refused(tmp_path, target):
    with pytest.raises(RuntimeError, match="addresses come as numbers of 64 bits"):
        build.compile_library(build.SOURCE, tmp_path / "library", build.zig_compiler(target))


@pytest.mark.slow
@pytest.mark.skipif(not COMPILER, reason="needs a C compiler")
def test_a_library_of_another_file_is_refused(monkeypatch):
    monkeypatch.setattr(build, "source_hash", lambda: 7)
    with pytest.raises(OSError, match=r"is of another sums\.c"):
        build.load_library(str(build.SOURCE.with_name(build.LIBRARY)))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (r"C:\LLVM\bin\clang.exe -O2", [r"C:\LLVM\bin\clang.exe", "-O2"]),
        (r'"C:\Program Files\clang.exe" --target=x', [r"C:\Program Files\clang.exe", "--target=x"]),
        (r"C:\Zig\zig.exe cc", [r"C:\Zig\zig.exe", "cc"]),
    ],
)
def test_a_compiler_of_windows_is_called_by_its_path(command, words):
    assert build.words_of(command, is_windows=True) == words


def test_a_compiler_whose_path_has_spaces_is_one_word(tmp_path):
    compiler = tmp_path / "my compilers" / "cc"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    assert build.words_of(str(compiler)) == [str(compiler)]
    assert build.words_of("ccache gcc") == ["ccache", "gcc"]


def test_a_dsyrk_of_other_integers_is_refused(monkeypatch):
    monkeypatch.setattr(kernels, "_DSYRK", kernels._DSYRK.replace(b"int", b"long"))
    with pytest.raises(ImportError, match="SciPy's dsyrk is"):
        kernels._syrk.__wrapped__()


def test_the_compiler_that_cc_names_is_used_alone(room):
    folder, bare = room
    done = compiled(
        folder, bare | {"CC": f"{sys.executable} -c raise(SystemExit('mine'))", "PATH": os.environ["PATH"]}
    )
    assert "mine" in done.stderr
