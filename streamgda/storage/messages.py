"""What errors of other libraries say, as parts of errors of our own."""

from __future__ import annotations


def one_line(error: BaseException) -> str:
    """The message of an error, without line breaks."""
    return " ".join(str(error).split())
