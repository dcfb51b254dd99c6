"""What an adapter computes where WGSL leaves a choice, found by small shaders of their own."""

from __future__ import annotations

import functools

import numpy as np
import wgpu

from gpunn.backends.webgpu.device import open_device
from gpunn.types import Array

_SHADER = """
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {{ let v = x[at.x]; y[at.x] = {expression}; }}
"""


def computed(expression: str, x: Array) -> Array:
    """Return an expression in v, and in elements of x, for each v of x, 64 float32s or a multiple."""
    device = open_device(None, False).wgpu
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    given = device.create_buffer_with_data(data=x, usage=usage)
    result = device.create_buffer(size=x.nbytes, usage=usage)
    module = device.create_shader_module(code=_SHADER.format(expression=expression))
    pipeline = device.create_compute_pipeline(
        layout="auto", compute={"module": module, "entry_point": "main"}
    )
    entries = [{"binding": k, "resource": {"buffer": b}} for k, b in enumerate((given, result))]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(x.size // 64)
    work.end()
    device.queue.submit([encoder.finish()])
    return np.frombuffer(device.queue.read_buffer(result), np.float32)


@functools.cache
def constants_divide_alike() -> bool:
    """Tell whether a quotient by a constant has the bits of one by a number in memory.

    Some compilers multiply by the reciprocal of a constant, as WGSL allows.
    """
    x = np.arange(1, 129, dtype=np.float32)
    x[0] = 70
    return bool(np.array_equal(computed("v / 70.0", x), computed("v / x[0]", x)))
