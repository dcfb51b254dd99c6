"""The public interface: the names of __all__ exist, and none is missing."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import gpunn
from gpunn import errors
from tests.resources import ENVIRONMENT


@pytest.mark.parametrize("module", [gpunn, gpunn.nnapi], ids=["gpunn", "gpunn.nnapi"])
def test_all_names_are_sorted_and_exist(module: ModuleType) -> None:
    constants = sorted(n for n in module.__all__ if n.isupper())
    classes = sorted(n for n in module.__all__ if n[0].isupper() and n not in constants)
    functions = sorted(n for n in module.__all__ if n[0].islower())
    assert module.__all__ == [*constants, *classes, *functions]
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None, name


def test_a_star_imports_all_names() -> None:
    names: dict[str, object] = {}
    exec("from gpunn import *", names)
    assert names.keys() - {"__builtins__"} == set(gpunn.__all__)


def test_everything_public_is_named() -> None:
    """A class or function that gpunn imports is meant for users."""
    imported = {n for n, v in vars(gpunn).items() if getattr(v, "__module__", "").startswith("gpunn.")}
    assert {n for n in imported if not n.startswith("_")} <= set(gpunn.__all__)


def test_every_error_is_public() -> None:
    found = {n for n, v in vars(errors).items() if isinstance(v, type) and v.__module__ == errors.__name__}
    assert found <= set(gpunn.__all__)


def test_nnapi_is_imported_on_first_use() -> None:
    code = (
        "import sys, gpunn; assert 'gpunn.nnapi' not in sys.modules; "
        "assert gpunn.nnapi.NnapiError is gpunn.NnapiError"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT, timeout=120)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="module 'gpunn' has no attribute 'nothing'"):
        getattr(gpunn, "nothing")  # noqa: B009 (a type checker would complain)
