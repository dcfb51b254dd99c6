"""The target of a reader of TFLite operators: a model, and the current values of its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.context import Context, Key


@dataclass(slots=True)
class States:
    """The values of state while a model is read, by key.

    `begun` is what it held at first, which `begin` makes, `written` what has become of it.
    """

    begin: Callable[[Key], Operand]
    begun: dict[Key, Operand] = field(default_factory=dict)
    written: dict[Key, Operand] = field(default_factory=dict)

    def start(self, key: Key) -> Operand:
        """Return what it held at first."""
        if key not in self.begun:
            self.begun[key] = self.begin(key)
        return self.begun[key]

    def get(self, key: Key) -> Operand:
        """Return what it holds by now."""
        return self.written[key] if key in self.written else self.start(key)


@dataclass(frozen=True, slots=True)
class Target:
    """A model in the making, the names in it, what was dequantised there, and what state holds by now.

    Variable tensors (`tensors`) and resources differ in what subgraphs do to them: the variables of a branch
    or a loop's body are as new each time that operator runs, resources are the whole file's.
    `certain`: the first run comes by for sure, as this is no body of a branch or a loop.
    """

    model: Graph
    tensors: States
    resources: States
    names: Names
    widened: dict[Operand, Operand] = field(default_factory=dict)
    certain: bool = False

    @classmethod
    def outer(cls, context: Context, model: Graph) -> Target:
        """Return the file's own model, in which state is kept from run to run."""
        names = Names()

        def variable(key: Key) -> Operand:
            name, type, value = context.initial(key)
            return model.variable(names.unique(name), type, value)

        return cls(model, States(variable), States(variable), names, certain=True)

    @classmethod
    def alone(cls, model: Graph) -> Target:
        """Return a model without any state."""

        def begin(key: Key) -> Operand:
            raise RefusedError("a variable is used first where shapes depend on values, or in a body there")

        return cls(model, States(begin), States(begin), Names())

    def entered(self, context: Context) -> Target:
        """Return the same model, for a subgraph whose variable tensors begin anew."""
        return replace(self, tensors=_constants(context, self.model, self.names))

    def once(self, context: Context) -> Target:
        """Return a model for what happens before the first run."""
        model, names = Graph(), Names()
        return Target(
            model, _constants(context, model, names), _constants(context, model, names), names, certain=True
        )

    def body(self, name: str, loop: bool = False) -> Target:
        """Return a model inside of this one, into which what resources hold here comes as inputs.

        Of a `loop` that holds for variable tensors, too; else they begin anew, as the constants that they are
        here (see entered()).
        """
        model, names = Graph(name), Names()

        def inputs(states: States) -> States:
            def input(key: Key) -> Operand:
                outside = states.get(key)
                name = names.unique(outside.name)
                if self.model.waits(outside):
                    return model.unknown_input(name, outside.type)
                return model.input(name, outside.type)

            return States(input)

        tensors = inputs(self.tensors) if loop else States(self.tensors.start)
        return Target(model, tensors, inputs(self.resources), names)

    def update(self) -> None:
        """Let the variables of the model be after a run what they were set to."""
        for states in (self.tensors, self.resources):
            for key, variable in states.begun.items():
                if key in states.written:
                    self.model.update(variable, states.written[key])


def _constants(context: Context, model: Graph, names: Names) -> States:
    """Return state that begins as it is before the first run."""

    def constant(key: Key) -> Operand:
        name, type, value = context.initial(key)
        return model.constant(names.unique(name), value, type)

    return States(constant)
