"""Ask for the memory of a mapped buffer that has been destroyed; webgpu.h says that it is NULL then."""

import wgpu
from wgpu.backends.wgpu_native import ffi, lib

device = wgpu.gpu.request_adapter_sync().request_device_sync()
buffer = device.create_buffer(size=16, usage=wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ)
buffer.map_sync(wgpu.MapMode.READ)
device.destroy()
lib.wgpuDevicePoll(device._internal, True, ffi.NULL)
memory = lib.wgpuBufferGetConstMappedRange(buffer._internal, 0, 16)
print("NULL" if memory == ffi.NULL else "memory")
