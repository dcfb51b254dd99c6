"""One run: from stage to stage, and at the end its outputs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import cast

import numpy as np

from gpunn.backends.base import copied
from gpunn.backends.cpu import run_operation
from gpunn.backends.interrupt import holding
from gpunn.backends.locks import make_lock
from gpunn.backends.webgpu.executor import Executor
from gpunn.backends.webgpu.held import Held
from gpunn.backends.webgpu.recorder import Recorder
from gpunn.backends.webgpu.ring import Slot
from gpunn.backends.webgpu.stage import Stage
from gpunn.errors import DeviceError, ModelError
from gpunn.graph.operation import Operand
from gpunn.types import Array

_numbers = itertools.count()


class Run:
    """One run on its way through the stages; `rest` are the host's stages after the last device stage.

    It owns a slot of the executor's ring from a submission to the device until its results are taken; all
    its methods may be called again after KeyboardInterrupt. `state` is what it leaves in variables on the
    host, once there is a result. A `recorder` times its parts.
    """

    def __init__(
        self,
        executor: Executor,
        values: dict[Operand, Array],
        rest: Sequence[Stage],
        recorder: Recorder | None = None,
    ) -> None:
        self.number = next(_numbers)
        self._executor = executor
        self._values = values
        self._rest = rest
        self._recorder = recorder
        self.state: dict[Operand, Array] = {}
        self._held: dict[Operand, Held] = {}
        self._lock = make_lock()
        self._under_way: tuple[Stage, Slot] | None = None
        self._outputs: tuple[Array, ...] | None = None
        self._error: DeviceError | ModelError | None = None

    @property
    def launched(self) -> bool:
        """Tell whether a device stage is under way."""
        return self._under_way is not None

    def launch(self, stage: Stage) -> None:
        """Run a host stage, or submit a device stage for settle() to complete."""
        if not stage.on_device:
            self._run_host(stage)
            return
        slot = self._executor.encode(self, stage, self._values, self._held, self._recorder)
        if slot is not None:
            self._under_way = stage, slot

    def settle(self) -> bool:
        """Wait for the device stage under way, if any, and take its results; False if the run failed."""
        with holding(self._lock):
            if self._under_way is None:
                return self._error is None
            stage, slot = self._under_way
            # The slot has no mapping, or another owner, where Ctrl-C came after the results had been taken.
            if slot.owner is self and slot.mapping is not None:
                try:
                    if self._recorder is None:
                        self._executor.record_ahead(stage, slot)
                    began = time.perf_counter()
                    self._executor.read(stage, slot.mapping, self._values)
                    if self._recorder is not None:
                        self._recorder.host("read back", began)
                except (DeviceError, ModelError) as error:
                    self._error = error
            if slot.owner is self:
                self._executor.take_back(slot)
            self._under_way = None
            return self._error is None

    def result(self) -> tuple[Array, ...]:
        """Wait for the end and return the outputs."""
        if self._outputs is None and self._executor.device.forked:
            self._executor.device.check_usable()
        self.settle()
        with holding(self._lock):
            if self._error is not None:
                raise self._error
            if self._outputs is None:
                for stage in self._rest:
                    self._run_host(stage)
                updates = self._executor.host_updates
                self.state = {variable: self._copy(o) for variable, o in updates.items()}
                own = set(self._executor.read_back)
                outputs = tuple(self._output(o, own) for o in self._executor.plan.model.outputs)
                self._outputs = outputs
                self._values.clear()
                self._held.clear()
            return self._outputs

    def done(self) -> bool:
        """Tell whether the run has ended and its results have been taken."""
        return self._outputs is not None or self._error is not None

    def check_not_reentered(self) -> None:
        """Raise DeviceError if this thread is in settle() or result()."""
        holding(self._lock)

    def _output(self, operand: Operand, own: set[Operand]) -> Array:
        """Return an output: on the device if it stays there, or if nothing has read it back.

        The arrays of operands in `own` may be given away, each once; of others there is a copy.
        """
        value = self._held.get(operand) or self._values.get(operand)
        if isinstance(value, Held):
            return cast(Array, value)
        if value is None or operand not in own:
            return self._copy(operand)
        own.remove(operand)
        return value

    def _copy(self, operand: Operand) -> Array:
        """Return the host's value of an operand, in an array of its own."""
        return copied(self._value(operand))

    def _run_host(self, stage: Stage) -> None:
        products = self._executor.products
        with products.of_run():
            for placement in stage.segment.placements:
                for operand in placement.operation.inputs:
                    if operand is not None and operand.value is None:
                        self._values[operand] = self._value(operand)
                began = time.perf_counter()
                threads = products.threads(placement.operation)
                if threads:
                    products.use(threads)
                run_operation(placement.operation, self._values)
                if self._recorder is not None:
                    self._recorder.host(placement.operation.op, began, placement.operation)

    def _value(self, operand: Operand) -> Array:
        """Return the host's value of an operand, through its aliases."""
        if operand in self._values:
            if isinstance(self._values[operand], Held):
                self._values[operand] = np.asarray(self._values[operand])
            return self._values[operand]
        if operand.value is not None:
            return operand.value
        source = self._value(self._executor.plan.root(operand)).reshape(-1)
        return source.view(operand.type.dtype.numpy).reshape(operand.type.shape)
