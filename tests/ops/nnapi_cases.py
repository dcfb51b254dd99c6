"""The cases of ../shared/conformance/nnapi as operations: goldens of AOSP and numbers from elsewhere."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpunn.model import Model
from gpunn.types import Array
from tests.ops.harness import type_of
from tests.resources import shared

FUSED = {0: None, 1: "relu", 2: "relu1", 3: "relu6", 4: "tanh", 6: "logistic"}

# Operands of a case (None where absent) -> operands and attributes of the op.
Mapping = Callable[..., tuple[Sequence[Array | None], dict[str, Any]]]


def reader() -> Any:
    """Load the reader module beside the cases."""
    path = shared("conformance/nnapi/nnapi_data.py")
    spec = importlib.util.spec_from_file_location("nnapi_data", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def float_cases(operation: str) -> Iterator[tuple[Any, Any]]:
    """Yield (reader, case) for all float32 cases of NNAPI 1.0 and 1.1, also the relaxed ones."""
    module = reader()
    for folder in ("aosp", "synth"):
        for case in module.cases(str(shared(f"conformance/nnapi/{folder}")), op=operation):
            if case.kind in ("float32", "relaxed"):
                yield module, module.strip_defaults(case)


def check_cases(operation: str, op: str, mapping: Mapping, backend: str) -> None:
    """Run every case with all its operands as inputs of a model, and compare as the cases' README says."""
    count = 0
    for module, case in float_cases(operation):
        count += 1
        ((_, numbers, _),) = case.operations
        found = [case.operands[k] for k in numbers]
        absent = [o.omitted or o.life == "no_value" for o in found]
        inputs, attrs = mapping(*(None if a else o.data for o, a in zip(found, absent, strict=True)))
        model = Model(case.name)
        operands = [
            None if v is None else model.input(f"input_{k}", type_of(v)) for k, v in enumerate(inputs)
        ]
        model.output(*model.add(op, operands, attrs))
        with model.compile(backend=backend) as compilation:
            results = compilation(*(v for v in inputs if v is not None))
        outputs = results if isinstance(results, tuple) else (results,)
        errors = module.compare(case, [np.asarray(y) for y in outputs])
        assert not errors, f"{case.id}: {errors}"
    assert count, f"there is no case of {operation}"
