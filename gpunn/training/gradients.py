"""gradients(): a model of the gradients of a loss."""

from __future__ import annotations

from collections.abc import Sequence

from gpunn.arguments import expect_flag, expect_list, expect_model
from gpunn.errors import ModelError
from gpunn.graph.exchange import replace_inputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.training.differentiate import differentiate


def gradients(
    model: Model,
    loss: str | Operand,
    parameters: Sequence[str | Operand],
    *,
    outputs: bool = False,
) -> Model:
    """Return a model that computes a loss, and its gradients with respect to parameters.

    loss, parameters: operands of the model or their names. The loss has one element, and parameters are
    float32 or float16 as the loss: constants (weights), inputs, or results on the way. A constant becomes an
    input of the new model, of the constant's name, behind the model's inputs; so its value can change from
    run to run, and nothing is compiled again. The outputs are the loss; with `outputs`, the outputs of the
    model, too; and for each parameter "gradient of NAME", of the parameter's type.

    Raises ModelError for names that the model does not have, or has several times, for operands of other
    types, and for a model with pending operations. Raises UnsupportedError, naming all of them, if operations
    between a parameter and the loss have no gradient (docs/training.md).
    """
    expect_model(model, Model)
    expect_list("parameters", parameters, "operands or their names")
    outputs = expect_flag("outputs", outputs)
    operands = model.operands()
    chosen = [_named(model, operands, name) for name in parameters]
    exposed, exchange = _with_inputs(model, chosen)
    target = _named(model, operands, loss)
    found = differentiate(exposed, exchange.get(target, target), [exchange.get(p, p) for p in chosen])
    graph = found.graph
    graph.output(found.loss)
    if outputs:
        graph.output(*(exchange.get(o, o) for o in model.outputs))
    for parameter, gradient in zip(found.parameters, found.gradients, strict=True):
        name = f"gradient of {parameter.name}"
        result = graph.add("reshape", [gradient], {"shape": gradient.type.shape}, names=[name], origin=name)
        graph.output(*result)
    return Model.of(graph)


def _named(model: Graph, operands: Sequence[Operand], name: str | Operand) -> Operand:
    """Return the operand of a name; raise ModelError unless there is one."""
    if isinstance(name, Operand):
        return name
    found = [o for o in operands if o.name == name]
    if len(found) != 1:
        count = "no operand" if not found else f"{len(found)} operands"
        raise ModelError(f"model {model.name!r} has {count} {name!r}")
    return found[0]


def _with_inputs(model: Graph, parameters: Sequence[Operand]) -> tuple[Graph, dict[Operand, Operand]]:
    """Return a copy that has inputs for constants among the parameters, and which."""
    copy = model.with_operations(())
    exchange = {p: copy.input(p.name, p.type) for p in parameters if p.value is not None}
    changed = copy.with_operations(replace_inputs(o, exchange) for o in model.operations)
    changed.updates = {v: exchange.get(o, o) for v, o in model.updates.items()}
    return changed, exchange
