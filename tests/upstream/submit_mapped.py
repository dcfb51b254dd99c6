"""Submit a copy into a buffer that is mapped, which WebGPU answers with a validation error."""

import wgpu

device = wgpu.gpu.request_adapter_sync().request_device_sync()
source = device.create_buffer(size=16, usage=wgpu.BufferUsage.COPY_SRC)
target = device.create_buffer(size=16, usage=wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ)
encoder = device.create_command_encoder()
encoder.copy_buffer_to_buffer(source, 0, target, 0, 16)
commands = encoder.finish()
target.map_sync(wgpu.MapMode.READ)
try:
    device.queue.submit([commands])
except wgpu.GPUError as error:
    print("error:", " ".join(str(error).split()))
