"""Operations on words: skip_gram."""

from __future__ import annotations

import re

import numpy as np

from gpunn.errors import ModelError
from gpunn.ops.call import Call
from gpunn.ops.check import expect_bool, expect_int
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType

MAX_GRAM_BYTES = 1 << 22  # of all n-grams of one text: their number may grow with the power of their size


def _words(text: bytes) -> list[bytes]:
    """Split a text at white space (isspace of C).

    As in TFLite, one white space at the beginning of the text counts as the first letter of a word, and that
    word counts only if it is the last one.
    """
    first, *rest = re.split(rb"[ \t\n\v\f\r]", text[1:])
    *words, last = [text[:1] + first, *rest]
    return [w for w in words if w and not w[:1].isspace()] + ([last] if last else [])


def _infer(call: Call) -> TensorType:
    for name in ("ngram_size", "max_skip_size"):
        expect_int(call, name, call[name])
    expect_bool(call, "include_all_ngrams")
    if call.x.dtype is not DType.STRING:
        call.fail(f"takes a string, got {call.x}")
    if call.x.size != 1:
        call.fail(f"takes one text, got {call.x.size}")
    text = call.value(0, call.x.with_shape((1,)))
    names = ("ngram_size", "max_skip_size", "include_all_ngrams")
    return call.x.with_shape(skip_gram.reference(text, **{name: call[name] for name in names}).shape)


@op(_infer, host_reason="how many n-grams there are follows from the text", raw=True, strings=True)
def skip_gram(text: Array, *, ngram_size: int, max_skip_size: int, include_all_ngrams: bool) -> Array:
    """List words of a text that are near each other, `ngram_size` at a time, in order, joined by blanks.

    text: one string. The result is a vector of strings. Between a word and the next there are at most
    max_skip_size others. The n-grams are in the order of their first words, then of their second words and so
    on. With include_all_ngrams the result also contains the n-grams of 1 ... ngram_size - 1 words, each
    behind those that it begins. A text of fewer than ngram_size words has none. Raises ModelError for
    anything but one text, and for n-grams of more than MAX_GRAM_BYTES in all. TFLite schema, SkipGramOptions;
    LiteRT, skip_gram.cc.
    """
    if text.size != 1:
        raise ModelError(f"skip_gram: takes one text, got {text.size}")
    words = _words(text.item())
    grams: list[bytes] = []
    left = MAX_GRAM_BYTES
    path: list[int] = []  # the words of the n-gram in the making
    following = 0
    while len(words) >= ngram_size > 0:
        rest = 1 if include_all_ngrams else ngram_size - len(path)  # words that must still fit
        reach = path[-1] + max_skip_size + 1 if path else len(words)
        if len(path) < ngram_size and following <= min(reach, len(words) - rest):
            path.append(following)
        elif path:
            if include_all_ngrams or len(path) == ngram_size:
                grams.append(b" ".join(words[k] for k in path))
                left -= len(grams[-1]) + 8
            if left < 0:
                raise ModelError(f"skip_gram: more than {MAX_GRAM_BYTES} bytes of n-grams")
            following = path.pop()
        else:
            break
        following += 1
    found = np.empty(len(grams), object)
    found[:] = grams
    return found


OPS: tuple[Op, ...] = (skip_gram,)
