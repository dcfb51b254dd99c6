"""tune(): the choices of SUSTAINED_SPEED for a model, made ahead and told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpunn.arguments import expect_flag, expect_function, expect_model
from gpunn.backends.worker import undisturbed
from gpunn.compilation.assembly import Settings, built, compilation
from gpunn.compilation.compiler import gpu_devices
from gpunn.graph.graph import Graph
from gpunn.graph.reshape import reshaped
from gpunn.progress import Progress, untold
from gpunn.tuning.result import Tuning


def tune(
    model: Graph,
    *,
    device: str | int | None = None,
    relaxed: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
    again: bool = False,
    progress: Progress | None = None,
) -> Tuning:
    """Choose kernels for a model on a GPU by measuring them, so that compiling for SUSTAINED_SPEED need not.

    device, relaxed, shapes: as for Model.compile(). What is in the cache is not measured, unless it shall be
    measured `again`. If shapes depend on values, only what comes before those is tuned. progress: called as
    (what, done, total). Raises the errors of compiling.
    """
    expect_model(model, Graph)
    expect_function("progress", progress)
    relaxed, again = expect_flag("relaxed", relaxed), expect_flag("again", again)
    graph = model if shapes is None else reshaped(model, shapes)
    return undisturbed(partial(_tuned, graph, device, relaxed, again, progress or untold))


def _tuned(graph: Graph, device: str | int | None, relaxed: bool, again: bool, progress: Progress) -> Tuning:
    gpu = gpu_devices().open_device(device, False)
    from gpunn.tuning.tuner import Tuner

    limits = replace(graph.limits, compile_seconds=None)  # which is for compiling without measuring
    tuner = Tuner(gpu, limit=limits.device_bytes, again=again, progress=progress)
    settings = Settings(gpu, relaxed=relaxed, limits=limits, tuner=tuner)
    compilation(graph, partial(built, settings=settings), gpu, 1).close()
    return tuner.result(graph.name)
