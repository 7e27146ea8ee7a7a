"""Compile ``sums.c`` into the library ``_sums.so``: hatchling's build hook, and a script.

``pip install`` runs the hook. It uses the compiler that ``CC`` names, or else the first of cc, gcc and clang
that works. Where there is none, pip fetches Zig, which holds a C compiler, for the time of the build. The C
file includes no header and calls no library, so one wheel of a platform is for all versions of Python.

In an editable install, ``python streamgda/statistics/kernels/build.py`` compiles again after a change of the
C file. With ``STREAMGDA_WHEEL="<platform tag>=<Zig's target>"`` a wheel is for another platform: see
``.ci/release``.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().with_name("sums.c")
LIBRARY = "_sums.so"  # ctypes loads it by this name on every platform
ZIG = "ziglang==0.17.1"
WHEEL = "STREAMGDA_WHEEL"

# No fused multiply-add: each operation is rounded, on every processor.
FLAGS = ["-std=c11", "-O3", "-g0", "-shared", "-nostdlib"]
FLAGS += ["-ffp-contract=off", "-fno-builtin", "-fno-math-errno"]


def source_hash() -> int:
    """Return 64 bits of the SHA-256 of the C file. A library holds those of its source as ``source_hash``."""
    return int.from_bytes(hashlib.sha256(SOURCE.read_bytes()).digest()[:8], "big")


def load_library(path: str) -> ctypes.CDLL:
    """Load a library; an OSError or ValueError if it is of another C file.

    Where the sources were deleted, the library is of the C file that it was installed with.
    """
    loaded = ctypes.CDLL(path)
    library_hash = ctypes.c_uint64.in_dll(loaded, "source_hash").value
    if SOURCE.exists() and library_hash != source_hash():
        raise OSError(f"{path} is of another {SOURCE.name}")
    return loaded


def compile_library(source: Path, library: Path, command: list[str], platform: str = sys.platform) -> None:
    """Compile a C file with the command of a compiler; a failure is a RuntimeError with what it says."""
    command = [*command, *FLAGS, f"-DSOURCE_HASH={source_hash():#x}ULL", str(source), "-o", library.name]
    if not platform.startswith("win"):
        command += ["-fPIC"]
    if platform in {"darwin", "macos"}:
        command += ["-lSystem"]  # macOS loads no library without it
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | {"ZIG_GLOBAL_CACHE_DIR": scratch, "ZIG_LOCAL_CACHE_DIR": scratch}
        said: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace"}
        done = subprocess.run(command, cwd=scratch, env=environment, check=False, **said)
        if done.returncode:
            raise RuntimeError(f"{shlex.join(command)} failed:\n{done.stderr}")
        library.unlink(missing_ok=True)  # a process that has loaded it keeps its own
        shutil.copyfile(Path(scratch, library.name), library)


def find_compiler() -> list[str]:
    """Return the command of a C compiler that is not Zig; an empty list where there is none."""
    if os.environ.get("CC"):
        return words_of(os.environ["CC"])
    quiet = subprocess.DEVNULL
    if sys.platform == "darwin" and subprocess.call(["xcode-select", "-p"], stdout=quiet, stderr=quiet):
        return []  # /usr/bin/cc would offer, in a window, to install one
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        for name in filter(shutil.which, ["cc", "gcc", "clang"]):
            library = Path(scratch, name).with_suffix(".so")
            with contextlib.suppress(RuntimeError, OSError, ValueError):
                compile_library(SOURCE, library, [name])
                load_library(str(library))
                return [name]
    return []


def words_of(command: str, is_windows: bool = os.name == "nt") -> list[str]:
    """Return the words of a command: a path, perhaps in quotes, and options."""
    if shutil.which(command):  # a path with spaces
        return [command]
    if not is_windows:
        return shlex.split(command)
    return [word.replace('"', "") for word in re.findall(r'(?:"[^"]*"|[^\s"])+', command)]


def zig_compiler(target: str = "") -> list[str]:
    """Return the command of Zig's C compiler, for a target by its name or for any processor of this kind."""
    if not importlib.util.find_spec("ziglang"):
        raise RuntimeError(
            f"streamgda compiles {SOURCE.name}, and found no C compiler: cc, gcc or clang on the PATH, "
            f"or one that CC names. Install one, or Zig's: pip install {ZIG}"
        )
    command = [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", "-fno-sanitize=all"]
    return [*command, "-target", target] if target else command


def get_build_hook() -> type:
    """Return the hook; hatchling asks for it by this name."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    from packaging.tags import platform_tags

    class Hook(BuildHookInterface):
        def dependencies(self) -> list[str]:
            return [] if WHEEL not in os.environ and find_compiler() else [ZIG]

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if version == "editable":
                compile_beside()
                return
            tag, _, target = os.environ.get(WHEEL, "").partition("=")
            tag = tag or next(t for t in platform_tags() if not t.startswith(("manylinux", "musllinux")))
            self.scratch = tempfile.TemporaryDirectory()
            library = Path(self.scratch.name, LIBRARY)
            if target:
                compile_library(SOURCE, library, zig_compiler(target), target.split("-")[1])
            else:
                compile_library(SOURCE, library, find_compiler() or zig_compiler())
            build_data["force_include"][str(library)] = f"streamgda/statistics/kernels/{LIBRARY}"
            build_data |= {"pure_python": False, "tag": f"py3-none-{tag}"}

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            if version != "editable":
                self.scratch.cleanup()

    return Hook


def compile_beside() -> None:
    """Compile the library beside its C file, where an editable install has it."""
    compile_library(SOURCE, SOURCE.with_name(LIBRARY), find_compiler() or zig_compiler())


if __name__ == "__main__":
    compile_beside()
