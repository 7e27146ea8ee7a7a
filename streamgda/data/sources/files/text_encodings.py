"""Encodings of text, as the bytes of a file tell them."""

from __future__ import annotations

import codecs
import re

_FEW = 32  # bytes above ASCII without a letter, as encodings of single bytes have at most


def encoding_of(beginning: bytes, given: str) -> str:
    """The encoding that a text seems to have; the given one unless it is UTF-8, or the text is."""
    if given not in ("utf8", "utf-8"):
        return "utf8" if SingleByteEncoding(given).is_wrong_for(beginning) else given
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return "cp1252" if re.search(rb"[\x80-\x9f]", beginning) else "latin1"
    return "utf-16-le" if beginning[1:2] == b"\0" else given


class SingleByteEncoding:
    """An encoding such as Latin-1, in which UTF-8 would be read as other letters without an error.

    Parameters
    ----------
    encoding : str
        The name of any encoding. If it has more than single bytes, it is never called wrong: in it, UTF-8 is
        an error, or may be such text too.

    Examples
    --------
    >>> texts = ["Köln".encode(encoding) for encoding in ("utf8", "latin1")]
    >>> [SingleByteEncoding("latin1").is_wrong_for(text) for text in texts]
    [True, False]
    """

    def __init__(self, encoding: str) -> None:
        letters = [bytes([byte]).decode(encoding, "ignore") for byte in range(128, 256)]
        self._utf8 = codecs.getincrementaldecoder("utf-8")() if letters.count("") < _FEW else None

    def is_wrong_for(self, content: bytes) -> bool:
        """Whether the text, of which this comes next, has letters beyond ASCII that are UTF-8."""
        if self._utf8 is None:
            return False
        try:
            return not self._utf8.decode(content).isascii()
        except UnicodeDecodeError:
            self._utf8 = None
            return False
