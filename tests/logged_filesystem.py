"""A pyarrow filesystem over local files that notes every byte range that is read, from any process."""

import io
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs


class _NotedFile(io.FileIO):
    def __init__(self, path, log):
        super().__init__(path)
        self._path, self._log = path, log

    def read(self, size=-1):
        start = self.tell()
        content = super().read(size)
        note(self._log, f"{self._path}\t{start}\t{len(content)}")
        return content

    def __del__(self):
        self.close()


def note(log, line):
    """Append a line to a log that several processes write to."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


class NotingHandler(pafs.FileSystemHandler):
    """Delegates to the local filesystem and logs each read; may take its time to open a file."""

    def __init__(self, log, delay=0.0):
        self.log, self.delay = str(log), delay
        self._local = pafs.LocalFileSystem()

    @property
    def reads(self):
        """(path, start, length) of each read."""
        lines = Path(self.log).read_text().splitlines()
        return [
            (path, int(start), int(length)) for path, start, length in (line.split("\t") for line in lines)
        ]

    def get_type_name(self):
        return "noting"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self._local.get_file_info(paths)

    def get_file_info_selector(self, selector):
        return self._local.get_file_info(selector)

    def open_input_file(self, path):
        time.sleep(self.delay)
        return pa.PythonFile(_NotedFile(Path(path), self.log), mode="r")

    def _refuse(self, *args):
        raise OSError("this filesystem is for reading")

    open_input_stream = open_input_file
    open_output_stream = open_append_stream = create_dir = delete_dir = delete_dir_contents = _refuse
    delete_root_dir_contents = delete_file = move = copy_file = _refuse


class GatedHandler(NotingHandler):
    """Lets the tasks of a cluster open files only as far as some gates, which are files, are open.

    Parameters
    ----------
    log : path
        Where reads are noted.
    gates : dict of int to Path
        By the number of the first file that waits. Files are named by their numbers.
    """

    def __init__(self, log, gates):
        super().__init__(log)
        self.gates, self.planner = gates, os.getpid()

    def open_input_file(self, path):
        for first, gate in self.gates.items():
            while os.getpid() != self.planner and int(Path(path).stem) >= first and not gate.exists():
                time.sleep(0.01)
        return super().open_input_file(path)
