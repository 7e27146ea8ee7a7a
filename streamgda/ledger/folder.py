"""The folder of a ledger: what is in it, who may write there, and what is deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow.fs as pafs

from streamgda.ledger import manifest as manifests
from streamgda.ledger.entries import EntryFolder, MergedCache
from streamgda.ledger.manifest import Manifest
from streamgda.ledger.names import ENTRIES, MANIFEST, TOTAL, foreign_names, is_unfinished
from streamgda.storage.filesystems import is_local, reaching
from streamgda.storage.versions import Version, children
from streamgda.storage.writing import locked

_ORPHANED_FOR = timedelta(days=1)  # longer than a refresh takes: what is older was left by a crash


@dataclass(frozen=True)
class LedgerFolder:
    """A folder on any filesystem, which need not exist yet."""

    filesystem: pafs.FileSystem
    path: str

    @property
    def manifest_path(self) -> str:
        """Where the manifest is."""
        return f"{self.path}/{MANIFEST}"

    @property
    def entries(self) -> EntryFolder:
        """The entries."""
        return EntryFolder(self.filesystem, f"{self.path}/{ENTRIES}")

    @property
    def total(self) -> MergedCache:
        """The cached total of all the entries."""
        return MergedCache(self.filesystem, f"{self.path}/{TOTAL}")

    def read_manifest(self) -> Manifest | None:
        """The manifest; None before the first refresh."""
        return manifests.read(self.filesystem, self.manifest_path)

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest: the commit of a refresh."""
        manifests.write(self.filesystem, self.manifest_path, manifest)

    def check_no_foreign(self) -> None:
        """Check, before anything is written, that the folder is a ledger's or empty.

        Raises
        ------
        ValueError
            If there is no manifest, but something that no ledger writes.
        """
        if self.read_manifest() is not None:
            return
        with reaching(self.path):
            foreign = foreign_names(self.filesystem, self.path)
        if self.total.is_foreign():
            foreign.append(TOTAL)
        if foreign:
            raise ValueError(
                f"{self.path} is a folder of other things, such as {min(foreign)}, and no ledger; "
                "name a new one"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder, and keep out other processes that share it, on this machine or by a network.

        Raises
        ------
        RuntimeError
            If another process holds the lock.
        """
        self.check_no_foreign()
        self.entries.create()
        busy = f"another process is refreshing the ledger {self.path}; try again when it has ended"
        with locked(self.filesystem, self.path, busy):
            yield

    def tidy(self, before: Manifest, now: Manifest, there: Mapping[str, Version]) -> None:
        """Delete entries that no longer count, and what crashes have left.

        Parameters
        ----------
        before, now : Manifest
            Before and after the refresh.
        there : mapping of str to Version
            The entries that are in the folder.
        """
        superseded = before.entries.keys() - now.entries.keys()
        stray = {name: there[name] for name in there.keys() - now.entries.keys() - superseded}
        if is_local(self.filesystem):
            self._delete_unfinished()
        else:  # without a lock, another refresh may be about to name them in its manifest
            latest = (datetime.now(tz=UTC) - _ORPHANED_FOR).timestamp() * 1e9
            stray = {name: seen for name, seen in stray.items() if (seen.modified or latest) < latest}
        self.entries.delete((*superseded, *stray))

    def _delete_unfinished(self) -> None:
        for name in filter(is_unfinished, children(self.filesystem, self.path)):
            self.filesystem.delete_file(f"{self.path}/{name}")
