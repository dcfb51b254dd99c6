"""Make command buffers, submit some of them, free all, and ask how many wgpu-native still has."""

import gc

import wgpu
from wgpu.backends import wgpu_native

assert wgpu_native
device = wgpu.gpu.request_adapter_sync().request_device_sync()
made = [device.create_command_encoder().finish() for _ in range(5)]
device.queue.submit(made[:2])
made.clear()
gc.collect()
counts = wgpu.diagnostics.wgpu_native_counts.get_dict()
print("kept", counts["CommandBuffer"]["count"])
