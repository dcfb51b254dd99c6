"""Compilation: what users call; runtime.py has the one that runs in this process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpunn.backends.base import Stats, Trace
from gpunn.closing import Closing
from gpunn.compilation.event import Event, results_in_order, single
from gpunn.errors import ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.graph.reshape import as_input, by_name
from gpunn.kernel import Kernel
from gpunn.planning.partition import Placement, appended, prepended
from gpunn.types import Array
from gpunn.wording import counted


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One dispatch of a compiled model. appended: operations that it computes before it stores a result.

    bundle: the number of the bundle that it is a part of; None if it runs by itself. prepended: operations
    that it computes where it loads its first operand.
    """

    operation: Operation
    kernel: Kernel
    appended: tuple[Operation, ...] = ()
    bundle: int | None = None
    prepended: tuple[Operation, ...] = ()


class Compilation(Closing):
    """A model compiled for a backend. Safe to use from several threads; also a context manager.

    Inputs may have any extents where the model leaves these open, and shapes may depend on values: what was
    built for the last used shapes is kept; weights are shared on the device. What it has there is freed by
    close(), or, with a ResourceWarning, some time after nothing refers to it any more.
    """

    model: Graph
    backend: str
    device: str
    recipe: Callable[[], Compilation] | None = None  # compiles the model in the same way again
    frames: int  # of submitted runs that are in flight

    def __reduce__(self) -> tuple[Callable[[], Compilation], tuple[()]]:
        """Pickle and copy a compilation as its recipe: another one in the state before the first run."""
        if self.recipe is None:
            raise ModelError("a compilation that was made without compile() cannot be pickled or copied")
        return self.recipe, ()

    def __repr__(self) -> str:
        return f"<Compilation of {self.model!r} on {self.backend}, {self.device}>"

    @property
    @abstractmethod
    def placement(self) -> tuple[Placement, ...]:
        """Say where each operation ran last, and before the first run where it will, as far as shapes are
        known.
        """

    @property
    @abstractmethod
    def stats(self) -> Stats:
        """Return the counters of this compilation up to now; see gpunn.backends.base.Stats."""

    @abstractmethod
    def constants(self) -> dict[Hashable, int]:
        """Return the bytes of each constant on the device; compilations that share it have one key for it."""

    def plan_rows(self) -> tuple[PlanRow, ...]:
        """Return the GPU dispatches of one run, in order; those of a body as if it ran once."""
        before, behind = prepended(self.placement), appended(self.placement)
        bundles = {id(k): number for number, kernels in enumerate(self._bundles()) for k in kernels}
        return tuple(
            PlanRow(
                p.operation,
                k,
                behind.get(p.operation, ()) if any(w.output == 0 for w in k.writes) else (),
                bundles.get(id(k)),
                before.get(p.operation, ())
                if len(p.kernels) == 1 or any(r.prepended for r in k.reads)
                else (),
            )
            for p in self.placement
            for k in p.kernels
        )

    def _bundles(self) -> Sequence[Sequence[Kernel]]:
        """Return the kernels of this process that run as one dispatch, for each such dispatch."""
        return ()

    def __call__(self, *inputs: Any) -> Any:
        """Run on arrays in the order of the model's inputs.

        Returns the array of the only output, or a tuple of arrays in the order of the outputs; run() gives
        them by name. The type is Any because only the model knows which of the two it is.

        Inputs with a default may be None, and may be left out at the end.
        Raises ModelError for a wrong number, shape or dtype of inputs, DeviceError when the GPU fails.
        """
        return single(self.answer(self._arrays(inputs)))

    def run(self, inputs: Mapping[str, Any], *, timeout: float | None = None) -> dict[str, Array]:
        """Run on named inputs and return named outputs; otherwise as a call.

        inputs: arrays by name, of the shape and dtype of each input. The outputs have those of the model.
        Raises what a call does, and ModelError for names that are missing or unknown, or where several
        outputs have one name: a call returns them in their order.
        After `timeout` seconds the run ends before its next operation or round of a loop, and
        RunTimeoutError is raised. What has been handed to a GPU is computed to its end, but not waited for.
        Variables keep their values, unless the run's last part has been handed to a GPU.
        """
        if not isinstance(inputs, Mapping):
            names = [i.name for i in self.model.inputs]
            raise ModelError(f"run() takes a mapping of the inputs {names}, got {type(inputs).__name__}")
        given = by_name(self.model, inputs)
        outputs = dict.fromkeys(self.model.outputs)
        if len({o.name for o in outputs}) < len(outputs):
            raise ModelError(f"run() cannot name the outputs {[o.name for o in outputs]}: call the model")
        results = self.answer(self._arrays(given), timeout=timeout)
        return {o.name: r for o, r in zip(self.model.outputs, results, strict=True)}

    def predict(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run on named inputs, and return the outputs with the answer of a classifier by names of classes.

        The scores become a dictionary from labels to floats, and the label with the highest score is added:
        {"classLabel": "cat", "classLabelProbs": {"cat": 0.9, "dog": 0.1}}, under the names that the file has
        for them. Labels are str, or int if the file has numbers. All other outputs are arrays, as from run(),
        and so are those of a model whose file names no classes. Raises ModelError as run(), and if there is
        not one score for each label. Source: Core ML, MLModel.prediction().
        """
        found: dict[str, Any] = self.run(inputs)
        classes = self.model.classes
        if classes is None:
            return found
        output = next(o for o in self.model.outputs if o.name == classes.scores)
        best, found[classes.scores] = classes.named(found[classes.scores], output)
        return {**found, classes.best: best}

    @abstractmethod
    def submit(self, *inputs: Any) -> Event:
        """Start a run on arrays in the order of the model's inputs; return at once.

        The inputs may be changed afterwards. When all frames of the ring are in flight, waits for the oldest:
        one with FAST_SINGLE_ANSWER and LOW_POWER, three with SUSTAINED_SPEED. Raises ModelError as a call,
        and DeviceError if the compilation is closed; the event raises what happens in the run.
        """

    def stream(self, frames: Iterable[Any]) -> Iterator[Any]:
        """Return the results for a sequence of inputs (an array, or a tuple of arrays a frame), in order.

        With SUSTAINED_SPEED the upload of a frame, the computing of the one before and the read-back of the
        one before that overlap; memory does not grow with the length of the sequence. What a frame raises, or
        taking it from `frames`, comes after the results of the frames before it: as from submit().
        """
        return results_in_order(frames, self.submit, self.frames)

    @abstractmethod
    def trace(self, *inputs: Any, whole: bool = False) -> Trace:
        """Run with every dispatch and host operation timed; see gpunn.profile, which makes a table of it.

        It takes longer than a run. whole: the dispatches are timed together, one behind the other as in other
        runs; Trace.device_seconds is their time. Raises what a run raises.
        """

    @abstractmethod
    def reset_state(self, values: Mapping[str, Array] | None = None) -> None:
        """Give the model's variables their initial values, as they were before the first run.

        values: what variables shall begin with instead, by name, as variables() gives them. Raises ModelError
        for other names or types, or for another value of what nothing updates, and UnsupportedError for
        values in a worker process.
        Runs that have been submitted before do not see it, later ones do. Without variables nothing happens.
        State is reset, too, when inputs come with other shapes than in the run before.
        """

    @abstractmethod
    def variables(self) -> dict[str, Array]:
        """Return the values that the model's variables have after the last run, by name, as copies.

        These wait for the runs that have been submitted before, and are read back from the device. Raises
        ModelError if two variables have one name, DeviceError as a run.
        """

    @abstractmethod
    def close(self, *, finish: bool = False) -> None:
        """Free the device memory of this compilation; later runs raise DeviceError.

        Submitted runs that have begun end before, apart from loops. Those that have not begun are cancelled:
        their events raise DeviceError. With `finish`, they run to their end, too.
        """

    @abstractmethod
    def recover(self) -> None:
        """Build all programs again after the device was lost, on the device that takes its place.

        Submitted runs that have not ended are given up, and variables begin with their initial values. Raises
        DeviceError if there is no device, or if this compilation has been closed.
        """

    @abstractmethod
    def answer(self, arrays: Sequence[Array], *, timeout: float | None = None) -> tuple[Array, ...]:
        """Return the results of a run that sees what the runs before have left in variables."""

    def _arrays(self, inputs: Sequence[Any]) -> list[Array]:
        wanted = self.model.inputs
        if len(inputs) == len(wanted):
            return [as_input(operand, value) for operand, value in zip(wanted, inputs, strict=True)]
        left = wanted[len(inputs) :]
        if len(inputs) > len(wanted) or any(operand.default is None for operand in left):
            raise ModelError(f"the model takes {counted(len(wanted), 'input')}, got {len(inputs)}")
        given = (*inputs, *(None for _ in left))
        return [as_input(operand, value) for operand, value in zip(wanted, given, strict=True)]
