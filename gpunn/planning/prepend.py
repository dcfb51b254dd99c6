"""Elementwise operations that are computed where the operation behind them loads their result.

The product with a gate before a 1x1 convolution (squeeze and excitation) is a part of the convolution then:
it multiplies the rows that it loads. So the large tensor is read once more, and not written again. A variance
is computed from what it is a variance of: the squares of the differences are in no tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpunn.device import DeviceProperties
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Param, Read
from gpunn.planning.partition import ALIAS, DEVICE, HOST, Placement
from gpunn.planning.places import bound_once, pitch_params, row_params, source_of
from gpunn.planning.steps import Chain, Step, is_elementwise, outside, params_of, read_of, statement
from gpunn.pointwise import Appended, Reach, Repeat
from gpunn.rows import RowLoads, Rows
from gpunn.types import DType

# A kernel computes an operation again each time it loads an element. On lavapipe a product with a gate takes
# as long as in a dispatch of its own if each element of 7x7 pixels is loaded 12 times, of 28x28 20 times.
MOST_TIMES = 10

# On a GPU a dispatch less saves 2 us, and each of its results a store and a load, 8 bytes. An H200 moves 4.8
# TB/s, and computes 33e12 instructions a second at most (NVIDIA H200 datasheet), here taken as 10e12. So 8
# bytes are worth 16 instructions, and a dispatch 20e6, 512 for each of the invocations that occupy it. No GPU
# has measured this.
_RESULT_SAVES = 16
_DISPATCH_SAVES = 512


class _Loads(NamedTuple):
    """The operations that loads of `source` compute, and what these read, with what all of them need.

    rows: the place of `source` in the tensor that has its bytes.
    """

    source: Operand
    rows: Rows | None
    steps: tuple[Appended, ...]
    reads: tuple[Read, ...]
    params: Mapping[str, Param]
    libraries: tuple[str, ...]


@dataclass(slots=True)
class _Prepending:
    """The state of prepend(): the placements, where each operand is computed, and how often it is read.

    `runs`: for each placement, how many operations of the host came before it.
    """

    placements: list[Placement]
    joined: dict[Operand, Operand]
    chains: dict[Operation, Chain]
    device: DeviceProperties
    readers: Counter[Operand]
    runs: list[int] = field(default_factory=list)
    places: dict[Operand, int] = field(default_factory=dict)
    producers: dict[Operand, Placement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, placement in enumerate(self.placements):
            self.readers.update(o for o in placement.operation.inputs if o is not None)
            self.places.update(dict.fromkeys(placement.operation.outputs, number))
            self.producers.update(dict.fromkeys(placement.operation.outputs, placement))
            self.runs.append((self.runs[-1] if self.runs else 0) + (placement.backend == HOST))

    def step(self) -> None:
        """Let one operation after the other compute what comes before it, if its loads can."""
        for number, placement in enumerate(self.placements):
            read = _read(placement, _reals(self.device))
            home = None if read is None else self._home(number)
            if read is not None and home is not None:
                operation, kernels = self.placements[home].operation, self.placements[home].kernels
                chain = self.chains.get(operation, Chain(kernels, ()))
                loads = _loads(operation, chain, read, self.device)
                if loads is not None and self._fits(number, loads):
                    self._prepend(number, home, loads)

    def _home(self, number: int) -> int | None:
        """Return the place of the operation of a device that computes what one alone loads."""
        operation = self.placements[number].operation
        operand = operation.inputs[0]
        if operand is None or self._owner(operand) in map(self._owner, operation.outputs):
            return None  # a piece of the result is read where it lies
        while operand is not None and self.readers[operand] == 1 and self._is_computed(number, operand):
            placement = self.placements[self.places[operand]]
            if placement.backend == DEVICE:
                home = placement.within
                return self.places[operand if home is None else home.outputs[0]]
            operand = placement.operation.inputs[0]
        return None

    def _is_computed(self, number: int, operand: Operand) -> bool:
        """Tell whether an operand is computed before a placement, with nothing of the host in between."""
        place = self.places.get(operand)
        return place is not None and self.runs[place] == self.runs[number] and self._on_device(place)

    def _on_device(self, place: int) -> bool:
        return self.placements[place].backend in (DEVICE, ALIAS)

    def _fits(self, number: int, loads: _Loads) -> bool:
        """Tell whether a device can bind what is read then, and whether what is loaded lies in an arena."""
        kernels = self.placements[number].kernels
        bindings = max(k.bindings for k in kernels) + len(loads.reads)
        pitched = all(_pitched(r, loads) is not None for kernel in kernels for r in _loading(kernel))
        computed = self._is_computed(number, self._owner(loads.source))
        few = bindings <= self.device.most_bindings
        return few and pitched and computed and not self._binds_twice(number, loads)

    def _binds_twice(self, number: int, loads: _Loads) -> bool:
        """Tell whether a kernel would bind a tensor twice that it writes."""
        operation, kernels = self.placements[number].operation, self.placements[number].kernels
        first = operation.inputs[0]

        def owner_of(operand: Operand) -> Operand:
            return self._owner(loads.source if operand is first else operand)

        made = (_prepended(k, len(k.reads), loads, ()) for k in kernels if _loading(k))
        return not all(bound_once(operation, kernel, owner_of) for kernel in made)

    def _owner(self, operand: Operand) -> Operand:
        """Return the operand that has the bytes of one."""
        source = source_of(operand, self.producers)
        return self.joined.get(source, source)

    def _prepend(self, number: int, home: int, loads: _Loads) -> None:
        """Let the kernels of an operation compute those of a placement before it."""
        placement, first = self.placements[number], self.placements[home].operation
        owner, names = self._owner(loads.source), []
        for place, other in enumerate(self.placements):
            if first in (other.operation, other.within):
                reason = f"computed where {placement.operation.op} loads its result"
                self.placements[place] = replace(other, reason=reason, kernels=(), within=placement.operation)
                self.joined.update(dict.fromkeys(other.operation.outputs, owner))
                names.append(other.operation.op)
        chain = self.chains.get(placement.operation, Chain(placement.kernels, ()))
        own = [(len(k.reads), k) for k in chain.kernels]
        before = tuple(_prepended(k, count, loads, names) for count, k in own)
        self.chains[placement.operation] = replace(chain, kernels=before)
        pairs = zip(own, placement.kernels, strict=True)
        kernels = tuple(_prepended(k, count, loads, names) for (count, _), k in pairs)
        self.placements[number] = replace(placement, kernels=kernels)


def prepend(
    model: Graph,
    placements: Sequence[Placement],
    joined: Mapping[Operand, Operand],
    chains: Mapping[Operation, Chain],
    device: DeviceProperties,
) -> tuple[tuple[Placement, ...], dict[Operand, Operand], dict[Operation, Chain]]:
    """Let operations of a device compute the elementwise operations whose results they alone load.

    `joined`, `chains`: what gpunn.planning.append returns, which comes before. device: what the kernels are
    for; where the CPU does its work, float16 is not computed by loads, as it is not in stores.
    Returns the same for the new kernels. What has the bytes of a result that is computed by loads is what
    these load.
    """
    state = _Prepending([*placements], dict(joined), dict(chains), device, Counter(model.results))
    state.step()
    return tuple(state.placements), state.joined, state.chains


def _reals(device: DeviceProperties) -> Set[DType]:
    """Return the dtypes of numbers that loads compute."""
    return {DType.FLOAT32} if device.software else {DType.FLOAT32, DType.FLOAT16}


def _pays(steps: Sequence[Step], size: int, times: int, device: DeviceProperties) -> bool:
    """Tell whether to compute steps when elements are loaded takes no longer than a dispatch more.

    size: the elements of the result; each is loaded so many times.
    """
    if times == 1 or not all(step.is_quick for step in steps):
        return times == 1
    if device.software:
        return times <= MOST_TIMES
    more = max(len(steps) * times - _RESULT_SAVES, 0) * size
    return more <= _DISPATCH_SAVES * device.parallel_invocations


def _read(placement: Placement, reals: Set[DType]) -> Read | None:
    """Return how kernels load the first operand of their operation; None if not all do so by rows, or by
    elements.
    """
    loading = [read for kernel in placement.kernels for read in _loading(kernel)]
    if not loading or not {o.type.dtype for o in placement.operation.outputs} <= reals:
        return None
    whole = all(r.window is None and r.segments is None and r.pack is None for r in loading)
    alike = len({(r.by_rows, r.by_elements, r.width if r.by_elements else 0) for r in loading}) == 1
    first = loading[0]
    return first if whole and alike and (first.by_rows or first.by_elements) else None


def _loading(kernel: Kernel) -> list[Read]:
    return [read for read in kernel.reads if read.operand == 0]


def _loads(operation: Operation, chain: Chain, read: Read, device: DeviceProperties) -> _Loads | None:
    """Return what loads compute of an operation and what is appended to it; None if they cannot."""
    if len(chain.kernels) != 1 or operation.guarded or not is_elementwise(chain.kernels[0]):
        return None
    dense, own = _own_step(operation, chain.kernels[0])
    steps = (own, *(replace(s, values=_following(s.values)) for s in chain.steps))
    times = 1 if read.by_rows is None else read.by_rows.times
    if dense is None or not _pays(steps, operation.outputs[0].type.size, times, device):
        return None
    if not all(_can_compute(step, read.by_rows, _reals(device)) for step in steps):
        return None
    numbered = [(step, f"first{number}_") for number, step in enumerate(steps, start=1)]
    params = _params(numbered, read.by_rows, dense.rows)
    width = read.width if read.by_rows is None else 4
    assert isinstance(dense.operand, int)
    source = operation.inputs[dense.operand]
    if source is None or params is None:
        return None
    return _Loads(
        source,
        dense.rows,
        tuple(statement(step, prefix) for step, prefix in numbered),
        tuple(read_of(other, step, prefix, width) for step, prefix in numbered for other in outside(step)),
        params,
        tuple(name for step in steps for name in step.libraries),
    )


def _params(
    steps: Sequence[tuple[Step, str]], loads: RowLoads | None, rows: Rows | None
) -> dict[str, Param] | None:
    """Return the parameters of steps with these prefixes that are computed in rows, or by elements.

    Samples with gates of their own are further apart if the rows lie in those of a larger tensor. None if
    these have another length, or begin behind the first row of the larger one, whose places are counted.
    """
    found = {name: value for step, prefix in steps for name, value in params_of(step, prefix).items()}
    for step, prefix in steps if rows is not None and loads is not None else ():
        assert step.kernel.pointwise is not None and rows is not None and loads is not None
        for name, repeat in step.kernel.pointwise.operands.items():
            if step.values[name] is None and repeat.every:
                if rows.length != loads.length or rows.first >= rows.pitch:
                    return None
                found[f"{prefix}{name}_every"] = repeat.every // loads.length * rows.pitch
    return found


def _own_step(operation: Operation, kernel: Kernel) -> tuple[Read | None, Step]:
    """Return the read of the one operand of an elementwise operation that is as large as its result, which is
    value 0 then, and its step. It may stand in several places, as in x * x, but not in x - x (see append).
    """
    pointwise, size = kernel.pointwise, operation.outputs[0].type.size
    operands = {} if pointwise is None else pointwise.operands
    dense = {
        r.name: r
        for r in kernel.reads
        if r.name in operands and Reach.of(operands[r.name], size) is Reach.DENSE
    }
    several = pointwise is not None and -1 not in pointwise.signs
    sources = {operation.inputs[r.operand] for r in dense.values() if isinstance(r.operand, int)}
    alone = len(dense) == 1 or (several and len(sources) == 1)
    values = {name: 0 if alone and name in dense else None for name in operands}
    return (next(iter(dense.values())) if alone else None), Step(0, operation, kernel, values)


def _following(values: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the numbers of values of which the first one has another one before it now."""
    return {name: None if number is None else number + 1 for name, number in values.items()}


def _can_compute(step: Step, loads: RowLoads | None, reals: Set[DType]) -> bool:
    """Tell whether loads can compute an operation of reals: it needs of each row the elements of its columns
    at most, or loads are by elements.
    """
    kernel, operation = step.kernel, step.operation
    tables = any(read.value is not None for read in kernel.reads)
    found = {o.type.dtype for o in (*operation.inputs, *operation.outputs) if o is not None}
    if kernel.pointwise is None or tables or not found <= reals:
        return False
    repeats = [r for name, r in kernel.pointwise.operands.items() if step.values[name] is None]
    size = operation.outputs[0].type.size
    return loads is None or all(_by_columns(r, Reach.of(r, size), loads.length) for r in repeats)


def _by_columns(repeat: Repeat, reach: Reach, length: int) -> bool:
    if reach is Reach.FIRST:
        return True
    whole = repeat.period == length and repeat.every % length == 0
    return whole and reach in (Reach.FOURS, Reach.PARTS_FOURS)


def _pitched(read: Read, loads: _Loads) -> Mapping[str, Param] | None:
    """Return the parameters of a read in the rows that `source` lies in; None if it finds no such rows."""
    if loads.rows is None:
        return {}
    if read.by_elements:
        return row_params(read.name, loads.rows)
    return None if read.pitch is None else pitch_params(read, read.pitch, loads.rows, loads.source.type.size)


def _prepended(kernel: Kernel, own: int, loads: _Loads, names: Sequence[str]) -> Kernel:
    """Return a kernel whose loads of the first operand compute operations.

    own: how many of its reads are not those of appended operations, which stay behind all others.
    """
    loading = _loading(kernel)
    if not loading:
        return kernel
    dtype = loads.source.type.dtype  # in a relaxed model perhaps another one than that of what it stands for
    loaded = [replace(r, prepended=loads.steps, rows=loads.rows, dtype=dtype) for r in loading]
    reads = [loaded[loading.index(r)] if r in loading else r for r in kernel.reads]
    places = {name: value for r in loading for name, value in (_pitched(r, loads) or {}).items()}
    return replace(
        kernel,
        reads=(*reads[:own], *loads.reads, *reads[own:]),
        params={**kernel.params, **loads.params, **places},
        libraries=tuple(dict.fromkeys((*kernel.libraries, *loads.libraries))),
        reason=f"{kernel.reason}; its loads compute {', '.join(names)}",
    )
