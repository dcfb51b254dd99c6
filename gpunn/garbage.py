"""rare_collections(): Python looks for garbage less often while many objects are made that stay.

Reading and compiling a model makes many objects, and hardly any garbage that refers to itself. After every
few hundred objects Python looks through the new ones, and now and then through all objects of the program,
which takes as long as reading a small model.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

RARE = 1_000_003  # objects between two collections: rare, but not never; nobody else has this number
_usual = RARE  # what it was before, for child processes


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python's garbage collector wait for RARE new objects instead of a few hundred.

    Only the collector's first threshold changes, and only if it is lower. It comes back afterwards, unless
    somebody has set another one meanwhile. gc.disable() and gc.enable() mean what they always do. If several
    threads are inside at once, the first one to leave may already end it for all.
    """
    global _usual
    before = gc.get_threshold()[0]
    if not 0 < before < RARE:  # 0: it is off
        yield
        return
    _usual = before
    gc.set_threshold(RARE)
    try:
        yield
    finally:
        _restore(before)


def _restore(threshold: int) -> None:
    if gc.get_threshold()[0] == RARE:
        gc.set_threshold(threshold)


if hasattr(os, "register_at_fork"):  # another thread, which the child does not have, may have been inside
    os.register_at_fork(after_in_child=lambda: _restore(_usual))
