"""Print the notes of a release from CHANGELOG.md, if its tag is the version of the package.

Run as ``python .ci/notes.py v0.3.0`` in the root of the repository.
"""

import re
import sys
from pathlib import Path


def notes(tag: str) -> str:
    """The part of the changelog of a tag.

    Raises
    ------
    SystemExit
        If the tag is not the version, or the changelog does not name it, or names changes after it.
    """
    version = re.search(r'^__version__ = "(.+)"$', Path("streamgda/__init__.py").read_text(), re.MULTILINE)[1]
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, and the version in streamgda/__init__.py is {version}")
    unreleased, newest, *_ = Path("CHANGELOG.md").read_text().split("\n## ")[1:]
    heading, _, text = newest.partition("\n")
    if not re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", heading):
        raise SystemExit(f"the newest release in CHANGELOG.md is {heading}, without {version} and its day")
    if unreleased.strip() != "[Unreleased]":
        raise SystemExit("CHANGELOG.md has changes under [Unreleased]")
    return text.strip()


if __name__ == "__main__":
    print(notes(sys.argv[1]))
