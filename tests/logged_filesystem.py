"""A pyarrow filesystem over local files that notes every byte range that is read."""

import io
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs


class _NotedFile(io.FileIO):
    def __init__(self, path, reads):
        super().__init__(path)
        self._path, self._reads = path, reads

    def read(self, size=-1):
        start = self.tell()
        content = super().read(size)
        self._reads.append((os.fspath(self._path), start, len(content)))
        return content

    def __del__(self):
        self.close()


class NotingHandler(pafs.FileSystemHandler):
    """Delegates to the local filesystem and keeps (path, start, length) of each read in `reads`."""

    def __init__(self):
        self.reads = []
        self._local = pafs.LocalFileSystem()

    def get_type_name(self):
        return "noting"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self._local.get_file_info(paths)

    def get_file_info_selector(self, selector):
        return self._local.get_file_info(selector)

    def open_input_file(self, path):
        return pa.PythonFile(_NotedFile(Path(path), self.reads), mode="r")

    def _refuse(self, *args):
        raise OSError("this filesystem is for reading")

    open_input_stream = open_input_file
    open_output_stream = open_append_stream = create_dir = delete_dir = delete_dir_contents = _refuse
    delete_root_dir_contents = delete_file = move = copy_file = _refuse
