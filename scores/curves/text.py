"""Texts of files from elsewhere: their encodings, and JSON objects over several lines."""

import codecs
import json
from collections.abc import Iterator

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode(data: bytes) -> str:
    """Decode UTF-8, or what the byte order mark says; replaces what cannot be decoded."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    return data.decode(encoding, errors="replace")


def json_values(text: str) -> Iterator[object]:
    """Yield the JSON values that follow each other in a text, over any number of lines.

    Raises:
      ValueError: Something between is no JSON.
    """
    decoder, position = json.JSONDecoder(), 0
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        value, position = decoder.raw_decode(text, position)
        yield value
