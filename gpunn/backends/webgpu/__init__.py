"""The GPU backend: what a program does with wgpu-py, and what wgpu-py is given."""

from gpunn.backends.webgpu.header import prepare

prepare()  # before the first module that imports wgpu
