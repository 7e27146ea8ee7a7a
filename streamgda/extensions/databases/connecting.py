"""Connections by a URL, through ADBC, which only read, and see the tables at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from streamgda.data.blocks.wording import listed
from streamgda.data.storage.paths import shown

_PACKAGES = {
    "postgresql": "adbc-driver-postgresql",
    "sqlite": "adbc-driver-sqlite",
    "duckdb": "duckdb adbc-driver-manager",
}
"""What to install for each scheme."""
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """A connection to the database of a URL, closed in the end. Errors of the driver become ValueError."""
    scheme, found, place = url.partition("://")
    scheme = {"postgres": "postgresql"}.get(scheme.casefold(), scheme.casefold())
    if not found or scheme not in _PACKAGES:
        raise ValueError(
            f"{shown(url)} is no URL of a database that opens by ADBC: those begin with "
            f"{listed([f'{one}://' for one in _PACKAGES])}. In Python, accumulate_sql takes a connection "
            "of another driver"
        )
    try:
        adbc = import_module("adbc_driver_manager.dbapi")
        driver = import_module(f"adbc_driver_{scheme}{'' if scheme == 'duckdb' else '.dbapi'}")
    except ImportError as error:
        raise ImportError(f"{scheme}:// is opened by ADBC: pip install {_PACKAGES[scheme]}") from error
    path = str(Path(place).expanduser().absolute())
    if scheme != "postgresql":
        Path(path).stat()  # SQLite would not say what fails
    try:
        if scheme == "postgresql":
            opened = driver.connect(url)
        elif scheme == "sqlite":
            opened = driver.connect(f"file:{quote(path)}?mode=ro")
        else:
            how = {"path": path, "access_mode": "READ_ONLY"}
            opened = adbc.connect(driver.driver_path(), entrypoint="duckdb_adbc_init", db_kwargs=how)
        with closing(opened), closing(opened.cursor()) as cursor:
            if scheme == "postgresql":
                cursor.execute(_ONE_MOMENT)
            yield opened
    except adbc.Error as error:
        raise ValueError(f"{shown(url)}: {error}") from error
