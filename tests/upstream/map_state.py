"""Ask whether a buffer is mapped, as webgpu.h offers."""

import wgpu
from wgpu.backends.wgpu_native import lib

device = wgpu.gpu.request_adapter_sync().request_device_sync()
buffer = device.create_buffer(size=16, usage=wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ)
print("state", lib.wgpuBufferGetMapState(buffer._internal))
