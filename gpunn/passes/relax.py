"""Relaxed float32: float16 for storage, which halves memory and traffic; sums stay float32.

Devices may compute products in f16 (gpunn.ops.contraction.half_products).

NNAPI 1.1, ANeuralNetworksModel_relaxComputationFloat32toFloat16: float32 may be computed with the range and
precision of IEEE float16.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpunn.graph.exchange import replace_inputs, replace_outputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.types import Array, DType

LEAST, MOST = float(np.finfo(np.float16).smallest_normal), float(np.finfo(np.float16).max)


def relax(model: Graph) -> Graph:
    """Replace float32 by float16 for a model's intermediate tensors and constants.

    These stay float32: the model's inputs, outputs and variables; what a `precise` op reads or writes
    (softmax, normalisations, means, recurrent operations with their state); the inputs and outputs of
    arithmetic on quantised tensors; constants of less than two dimensions, which are small and include
    biases: rounding them would cost most of the accuracy; and constants whose greatest magnitude exceeds
    float16, such as a mask of -1e9. The result is for running: an op may now get both dtypes, which no rule
    for types allows.
    """
    roots = _roots(model)
    fixed = {roots.get(o, o) for o in (*model.inputs, *model.variables, *model.results)}
    for operation in filter(_stays, model.operations):
        fixed.update(roots.get(o, o) for o in (*operation.inputs, *operation.outputs) if o is not None)
    narrow: dict[Operand, Operand] = {}
    for operation in model.operations:
        for result in operation.outputs:
            root = roots.get(result, result)
            if result.type.dtype is DType.FLOAT32 and root not in fixed and root.value is None:
                narrow[result] = replace(result, type=replace(result.type, dtype=DType.FLOAT16))
    constants = {o: _narrowed(o) for o in model.operands() if o.value is not None}
    changed = []
    for operation in model.operations:
        if not _stays(operation) and not operation.definition.alias:
            operation = replace(replace_inputs(operation, constants), relaxed=True)
        changed.append(replace_outputs(replace_inputs(operation, narrow), narrow))
    return model.with_operations(changed)


def _roots(model: Graph) -> dict[Operand, Operand]:
    """Map each alias to the operand whose bytes it shares."""
    roots: dict[Operand, Operand] = {}
    for operation in model.operations:
        source = operation.inputs[0]
        if operation.definition.alias and source is not None:
            roots[operation.outputs[0]] = roots.get(source, source)
    return roots


def _stays(operation: Operation) -> bool:
    """Tell whether everything that an operation reads and writes stays float32."""
    return operation.definition.precise or operation.integer


def _narrowed(constant: Operand) -> Operand:
    """Return a constant as float16; unchanged if it is not float32, small, or outside of float16's range."""
    value = constant.value
    assert value is not None
    if constant.type.dtype is not DType.FLOAT32 or constant.type.rank < 2 or not _fits(value):
        return constant
    type = replace(constant.type, dtype=DType.FLOAT16)
    return Operand(constant.name, type, Lifetime.CONSTANT, value.astype(np.float16))


def _fits(value: Array) -> bool:
    """Tell whether the greatest finite magnitude is 0 or a normal number of float16."""
    magnitudes = np.abs(value[np.isfinite(value)])
    top = float(magnitudes.max(initial=0))
    return top == 0 or LEAST <= top <= MOST
