"""WGSL text: the code without its comments, the names in it, the libraries that a file uses."""

from __future__ import annotations

import functools
import re

_COMMENT_START = re.compile(r"//|/\*")
_BLOCK_MARK = re.compile(r"/\*|\*/")
_LINE_BREAKS = "\n\v\f\r\u0085\u2028\u2029"  # WGSL, section 3.2
_LINE_END = re.compile(rf"[{_LINE_BREAKS}]|\Z")
_IN_A_LINE = re.compile(rf"[^{_LINE_BREAKS}]")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_USE_LINES = re.compile(r"(?://!use [^\n]*(?:\n|\Z))*")


def without_comments(text: str) -> str:
    """Put blanks in place of all comments; what remains keeps its line and column."""
    pieces = []
    place = 0
    while start := _COMMENT_START.search(text, place):
        end = _block_end(text, start.start()) if start.group() == "/*" else _line_end(text, start.end())
        pieces += [text[place : start.start()], _IN_A_LINE.sub(" ", text[start.start() : end])]
        place = end
    return "".join((*pieces, text[place:]))


def _line_end(text: str, place: int) -> int:
    found = _LINE_END.search(text, place)
    assert found is not None
    return found.start()


def _block_end(text: str, start: int) -> int:
    """Return the end of a block comment; comments nest (WGSL, section 3.3). Without end it is the text's."""
    depth = 0
    for mark in _BLOCK_MARK.finditer(text, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


@functools.lru_cache(maxsize=512)
def identifiers(text: str) -> frozenset[str]:
    """Collect the names that WGSL code mentions; names in comments do not count."""
    return frozenset(_IDENTIFIER.findall(without_comments(text)))


def used_libraries(text: str) -> tuple[str, ...]:
    """List what the lines `//!use NAME ...` at the beginning of a shader file name, in their order."""
    head = _USE_LINES.match(text)
    assert head is not None
    return tuple(word for word in head.group().split() if word != "//!use")
