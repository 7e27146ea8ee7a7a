"""What the library runs on: versions of packages, BLAS and the loops in C."""

import platform
import re
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version

from threadpoolctl import threadpool_info

from streamgda.statistics.kernels import library

_NOT_AT_WORK = re.compile(r"extra == .(dev|test|bench)")


def show_versions() -> None:
    """Print what a report of a bug needs: versions of Python and packages, BLAS and its threads, processor.

    Of the packages of extras, those that are installed are printed.

    Examples
    --------
    >>> import streamgda
    >>> streamgda.show_versions()  # doctest: +ELLIPSIS
    streamgda: ...
    python: 3...
    """
    wanted = (line for line in requires("streamgda") or () if not _NOT_AT_WORK.search(line))
    lines = [f"streamgda: {import_module('streamgda').__version__}"]
    lines.append(f"python: {platform.python_version()}, {platform.platform()}")
    for name in dict.fromkeys(re.split(r"[^\w-]", line)[0] for line in wanted):
        with suppress(PackageNotFoundError):
            lines.append(f"{name}: {version(name)}")
    import scipy.linalg.blas  # noqa: F401  SciPy has a library of its own

    lines += [", ".join(f"{name}: {value}" for name, value in found.items()) for found in threadpool_info()]
    sys.stdout.write("\n".join([*lines, f"loops in C: {library()._name}", ""]))
