"""Places: where Python delivers signals, one after the other."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

_POLLS = tuple(
    code
    for name, code in dis.opmap.items()
    if name.startswith(("CALL", "RESUME")) or ("JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name)
)


@dataclass(slots=True)
class Places:
    """Counts the places where Python delivers signals, and raises KeyboardInterrupt at one of them.

    From Python 3.12 on, a function has places from the second time on that it runs under this.
    """

    at: int
    passed: int = 0
    where: str = ""  # of the interrupt

    def carry(self, act: Callable[[], object]) -> bool:
        """Run `act`; tell whether it ended without an interrupt."""
        self.passed = 0
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            act()
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(before)
        return True

    def _enter(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        if _in_destructor(frame):  # where Python drops the exception, and with a trace function loses more
            return None
        frame.f_trace_opcodes = True  # from Python 3.12 on nothing comes of it where f_trace_lines is False
        codes, handlers = _known(frame.f_code)
        polled, before = True, handlers[0]

        def step(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            nonlocal polled, before
            if event == "opcode":
                handler = handlers[frame.f_lasti]
                # Python raises in the call, here it is in the next instruction: with the same handler.
                if polled and handler == before:
                    self.passed += 1
                    if self.passed == self.at:
                        self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                        raise KeyboardInterrupt
                polled, before = codes[frame.f_lasti] in _POLLS, handler
            return step

        return step


def _in_destructor(frame: FrameType | None) -> bool:
    """Tell whether a function is called by a destructor or by the callback of a weak reference."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or ("weakref" in code.co_filename and code.co_name.endswith("remove")):
            return True
        frame = frame.f_back
    return False


@functools.cache
def _known(code: CodeType) -> tuple[bytes, tuple[int, ...]]:
    """Return the instructions of a function, and for each the place that handles its exceptions."""
    handlers = [-1] * len(code.co_code)
    for entry in dis.Bytecode(code).exception_entries:
        handlers[entry.start : entry.end] = [entry.target] * (entry.end - entry.start)
    return code.co_code, tuple(handlers)
