"""The table of docs/training.md: which ops have a gradient, and why the others have none.

    python -m tests.training.coverage

rewrites it.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpunn.ops import OPS
from tests.resources import ROOT

PAGE = ROOT / "docs" / "training.md"
INTEGERS = "gives or takes integers or truths, so nothing changes with small steps"
SECOND = "is itself used by gradients; second derivatives are not computed"
COMPLEX = "complex numbers"
BODIES = "holds graphs that run several times, or not at all"
CHOICE = "chooses, sorts or draws by values"
PIECES = "is written in ops that have none, which refusals name"

WITHOUT: dict[str, tuple[str, ...]] = {
    INTEGERS: (
        *("logical_not", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor"),
        *(
            "left_shift",
            "right_shift",
            "equal",
            "not_equal",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
        ),
        *("reduce_any", "reduce_all", "arg_max", "arg_min", "arg_max_pool2d", "bucketize", "bitcast"),
        *("one_hot", "range", "broadcast_args", "where", "unique", "hashtable_lookup", "lsh_projection"),
        *("quantize", "dequantize", "lut", "skip_gram"),
    ),
    SECOND: (
        *("relu_gradient", "relu01_gradient", "relu1_gradient", "relu6_gradient", "logistic_gradient"),
        *("tanh_gradient", "elu_gradient", "hard_swish_gradient", "share_of_maximum", "spread_pool2d"),
        *("conv2d_filter_gradient", "depthwise_filter_gradient"),
    ),
    COMPLEX: ("real", "imag", "complex_abs", "rfft2d"),
    BODIES: ("if_else", "while_loop", "some_rounds"),
    CHOICE: (
        *("detection_postprocess", "non_max_suppression", "batched_non_max_suppression", "posenet_decoder"),
        *("random_uniform", "random_normal", "multinomial"),
    ),
    PIECES: ("mfcc", "spectrogram"),
}
BEGIN, END = "<!-- begin of the table -->\n", "<!-- end of the table -->\n"


def rows() -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of the table: what holds, and the ops for which it does."""
    own = [name for name, op in OPS.items() if op.gradient is not None]
    written = [name for name, op in OPS.items() if op.expand is not None or op.formula is not None]
    yield "a gradient of its own", own
    yield (
        "the gradients of the ops that it is written in",
        [name for name in written if name not in (*own, *WITHOUT[PIECES])],
    )
    for reason, names in WITHOUT.items():
        yield f"none: {reason}", [*names]


def table() -> str:
    """Return the table in Markdown."""
    lines = [f"| {what} | {', '.join(f'`{name}`' for name in sorted(names))} |\n" for what, names in rows()]
    return "| gradient | ops |\n| --- | --- |\n" + "".join(lines)


def page() -> str:
    """Return the page with the table as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
