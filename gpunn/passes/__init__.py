"""Graph -> Graph: the changes to every graph before planning, in this order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.passes.adjoint import fold_adjoints
from gpunn.passes.average_pad import fuse_average_pads
from gpunn.passes.clamp import fuse_clamps
from gpunn.passes.combine import combine
from gpunn.passes.dilate import fuse_dilation
from gpunn.passes.expand import expand, rewrite
from gpunn.passes.fold import fold_aliases, fold_constants
from gpunn.passes.fuse import fuse_activation, fuse_pad
from gpunn.passes.grouped_heads import share_heads
from gpunn.passes.layer_norm import fuse_layer_norms
from gpunn.passes.layout import arrange
from gpunn.passes.left_product import multiply_from_left
from gpunn.passes.loops import close_bodies, settle_loops
from gpunn.passes.merge_layers import merge_layers
from gpunn.passes.phases import join_phases
from gpunn.passes.prune import bypass_broadcasts, bypass_concats, bypass_identities, prune_unread
from gpunn.passes.rejoin import rejoin
from gpunn.passes.requantize import fuse_quantize, sink_dequantize
from gpunn.passes.rewrite import everywhere
from gpunn.passes.rotary import fuse_rotary_embeddings
from gpunn.passes.scale import fold_channels
from gpunn.passes.scale_pieces import fold_factors
from gpunn.passes.sink_reshapes import sink_reshapes
from gpunn.passes.softmax import fuse_softmax
from gpunn.passes.stack_pieces import stack_pieces
from gpunn.passes.step_loops import fuse_step_loops
from gpunn.passes.swish import fuse_swish
from gpunn.passes.tabulate import tabulate
from gpunn.passes.unrolled import fuse_steps

Pass = Callable[[Graph], Graph]

# These follow the order of the arithmetic: padding, sum, constants of each channel, activation. The constants
# come before the activation, after which an operation can take none any more.
NEIGHBOURS: tuple[Pass, ...] = (fuse_pad, fold_channels, fuse_activation)

_AFTERWARDS: tuple[Pass, ...] = (
    # Before all that changes single operations, so that it finds what a converter has written; first what
    # leaves the fewest operations.
    fuse_steps,
    fuse_layer_norms,
    fuse_softmax,
    fuse_rotary_embeddings,
    join_phases,
    # Before the removals: it leaves pieces without readers, and concatenations of one tensor.
    rejoin,
    bypass_concats,
    # Before the fusions: an operation that changes nothing keeps apart neighbours that fit together.
    bypass_identities,
    # Before the fusions: a reader that is itself unread makes its input look shared.
    prune_unread,
    # Before the transposes: the fewer operations, the sooner these are removed.
    fuse_clamps,
    fuse_swish,
    # Before the transposes are removed: layers between two of them need none.
    multiply_from_left,
    # Before the fusions: transposes keep apart neighbours that fit together.
    arrange,
    # Before moves come together, which a product keeps apart.
    fold_factors,
    # Before moves come together, and after transposes have found their places. First what copies of keys keep
    # apart from their product.
    share_heads,
    fold_adjoints,
    # Once more: products that transpose keys by themselves want these in the order of the queries.
    arrange,
    # After what lies between pieces and their readers is gone, and before moves come together.
    stack_pieces,
    merge_layers,
    # Moves come together, and then DEQUANTIZE and QUANTIZE.
    sink_dequantize,
    sink_reshapes,
    combine,
    fuse_quantize,
    # After single functions have found their operation, before activations become a part of others.
    tabulate,
    # Pairs that cancel have left operations that change nothing, and neighbours that repeat themselves.
    bypass_identities,
    bypass_broadcasts,
    # Before the fusions, which take activations and products.
    fuse_clamps,
    fuse_average_pads,
    *NEIGHBOURS,
    # After its neighbours: sums and activations may stand inside, before the blocks are put together. And
    # before them once more: they may stand behind.
    fuse_dilation,
    *NEIGHBOURS,
)

PIPELINE: tuple[Pass, ...] = (
    # First: the other passes go into graphs whose types are known.
    close_bodies,
    # Then, while bodies are what a converter has written: a loop over steps that is one operation is none.
    fuse_step_loops,
    # Then: the other passes and the backends see only what is left.
    everywhere(expand),
    # Before the fusions, which ask for constants: what is computed from constants becomes constant. Bodies
    # share its bounds.
    fold_constants,
    *map(everywhere, _AFTERWARDS),
    # After the fusions: these see what an operation is, and not what computes it soonest.
    everywhere(rewrite),
    # After what writes a copy as another shape.
    everywhere(fold_aliases),
    # Last: what can be folded or left out in a body need not be counted or handed on.
    everywhere(settle_loops),
)


def optimise(model: Graph, check: Callable[[], None] = lambda: None) -> Graph:
    """Return a graph for the same function of the same inputs with fewer operations; inputs, outputs stay.

    `check` is called before each pass; what it raises ends the work.
    """
    with np.errstate(all="ignore"):  # constants of a file may be anything
        for step in PIPELINE:
            check()
            model = step(model)
    return model
