"""Child processes of os.fork(): locks are free there, and work of other threads is given up.

A child has only the thread that forked. A lock that another thread held then would stay held for ever.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from gpunn.backends.locks import make_lock

_T = TypeVar("_T")
_renewals: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def in_child(owner: _T, renew: Callable[[_T], None]) -> _T:
    """Have renew(owner) called in every child process that is forked while `owner` lives; return `owner`."""
    _renewals[owner] = renew
    return owner


def lock() -> threading.RLock:
    """Make a lock that knows its owner (see interrupt.holding) and is free in a child process."""
    return in_child(make_lock(), free)


def free(held: Any) -> None:
    """Free a lock in a child process, whoever held it; threading does so with its own locks."""
    held._at_fork_reinit()


def exit_without_handlers() -> None:
    """Have this process, a child, end without the exit handlers that C libraries of its parent registered.

    Mesa's handler takes locks of its driver's threads and signals to them. The child does not have these
    threads, and waits for ever if one of them was about to wake up at the fork. Python's own handlers have
    run by then. Only glibc has on_exit(), which tells the handler the exit status; elsewhere nothing changes.
    """
    libc = ctypes.CDLL(None)
    on_exit = getattr(libc, "on_exit", None)
    if on_exit is not None:
        on_exit(libc._exit, None)  # it comes first: handlers run in reverse order


def _renew() -> None:
    for owner, renew in list(_renewals.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
