"""A program that meets faults of the driver: python -m tests.faults.program CASE ...

A case is WHEN:CALL:N:TIMES:RESULT. While the program does what WHEN says, a call of the driver fails. It
prints a line for each case, in JSON: what came of it, and what comes once the driver works again.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import gpunn
from gpunn.backends.webgpu.device import open_device
from gpunn.model import Model
from gpunn.types import float32

SIDE = 8
LARGE = 4096  # a matrix of this side has an allocation of its own
ONES = np.ones((1, SIDE), np.float32)


def product(factor: float) -> Model:
    """A model that multiplies the sum of each row with a factor, and adds 1."""
    model = Model("product")
    weights = model.constant("w", np.full((SIDE, SIDE), factor, np.float32))
    (y,) = model.add("fully_connected", [model.input("x", float32(1, SIDE)), weights])
    (y,) = model.add("add", [y, model.constant("one", np.ones(1, np.float32))])
    model.output(y)
    return model


def other() -> Model:
    """A model with weights and a pipeline that product() has not: softmax(3 x)."""
    model = Model("other")
    (y,) = model.add(
        "mul", [model.input("x", float32(1, SIDE)), model.constant("w", np.full(SIDE, 3, np.float32))]
    )
    model.output(*model.add("softmax", [y]))
    return model


def large() -> Model:
    """A model with weights of 64 MiB."""
    model = Model("large")
    weights = model.constant("w", np.ones((LARGE, LARGE), np.float32))
    model.output(*model.add("fully_connected", [model.input("x", float32(1, LARGE)), weights]))
    return model


def right(compiled: gpunn.Compilation, factor: float) -> bool:
    """Run product(factor), and tell whether the answer is right."""
    return bool((compiled(ONES) == factor * SIDE + 1).all())


def submitted(compiled: gpunn.Compilation) -> bool:
    """Submit two runs, wait for them, and tell whether the answers are right."""
    events = [compiled.submit(ONES) for _ in range(2)]
    return all(bool((event.result() == 2 * SIDE + 1).all()) for event in events)


def compiled_and_right(model: Model, factor: float) -> bool:
    """Compile product(factor), and tell whether its answer is right."""
    with model.compile("webgpu") as compiled:
        return right(compiled, factor)


def compiled_other() -> bool:
    """Compile other(), and tell whether its answer is right."""
    with other().compile("webgpu") as compiled:
        return bool((compiled(ONES) == 1 / SIDE).all())


def compiled_large() -> bool:
    """Compile the model with large weights, and tell whether its answer is right."""
    with large().compile("webgpu") as compiled:
        return bool((compiled(np.ones((1, LARGE), np.float32)) == LARGE).all())


ACTIONS: dict[str, Callable[[gpunn.Compilation], bool]] = {
    "compile": lambda compiled: compiled_other(),
    "compile large": lambda compiled: compiled_large(),
    "run": lambda compiled: right(compiled, 2),
    "submit": submitted,
    "trace": lambda compiled: bool((compiled.trace(ONES).outputs[0] == 2 * SIDE + 1).all()),
    "close": lambda compiled: compiled.close() is None,
}


def outcome(action: Callable[[], bool]) -> str:
    """Return "right", "wrong", or the error that an action raises."""
    try:
        return "right" if action() else "wrong"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"


def meet(layer: Any, when: str, call: str, nth: int, times: int, result: int) -> dict[str, str]:
    """Do something while a call of the driver fails; return what came of it, and what comes afterwards."""
    open_device(None, False).destroy()  # so that the next compile makes everything anew
    with product(2).compile("webgpu") as compiled:
        before = outcome(lambda: right(compiled, 2))
        if when == "recover":
            open_device(None, False).destroy()
        assert layer.fail_calls(call.encode(), nth, times, result)
        act = compiled.recover if when == "recover" else lambda: ACTIONS[when](compiled)
        found = outcome(lambda: act() is not False)
        layer.fail_calls(call.encode(), 1, 0, 0)
        compile_again = outcome(lambda: compiled_and_right(product(5), 5))
        if when != "close":
            compiled.recover()
        run_again = "right" if when == "close" else outcome(lambda: right(compiled, 2))
    return {"before": before, "found": found, "compile again": compile_again, "run again": run_again}


def main() -> None:
    """Meet the faults that the arguments name."""
    layer = ctypes.CDLL(os.environ["GPUNN_FAULTS_LAYER"])
    layer.fail_calls.argtypes = ctypes.c_char_p, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_int
    for case in sys.argv[1:]:
        when, call, nth, times, result = case.split(":")
        print(json.dumps(meet(layer, when, call, int(nth), int(times), int(result))), flush=True)


if __name__ == "__main__":
    main()
