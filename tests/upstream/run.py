"""Write a buffer, submit a copy of it, and wait, several times: a small run of plain wgpu-py."""

import wgpu
from wgpu.backends.wgpu_native import ffi, lib

device = wgpu.gpu.request_adapter_sync().request_device_sync()
source = device.create_buffer(size=16, usage=wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST)
target = device.create_buffer(size=16, usage=wgpu.BufferUsage.COPY_DST)
try:
    for value in b"12345":
        device.queue.write_buffer(source, 0, bytes([value]) * 16)
        encoder = device.create_command_encoder()
        encoder.copy_buffer_to_buffer(source, 0, target, 0, 16)
        device.queue.submit([encoder.finish()])
        lib.wgpuDevicePoll(device._internal, True, ffi.NULL)
except wgpu.GPUError as error:
    print("error:", " ".join(str(error).split()))
else:
    print("right")
