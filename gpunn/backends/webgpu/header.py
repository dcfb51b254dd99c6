"""wgpu's C header as Python's byte code, so that few processes parse it.

wgpu-py gives its header to cffi at each import, which parses it in Python: a quarter of a second. What cffi
has parsed it can also write as a module of Python ("out-of-line ABI mode" in its documentation). Python keeps
the byte code of that, as of any module, in `__pycache__` beside this file. If wgpu-py's library has been
imported before this package, its header has been parsed, and stays as it is.
"""

from __future__ import annotations

import builtins
import io
import sys
import zlib
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

_NAME = "wgpu_header"
_LIBRARY = "wgpu.backends.wgpu_native._ffi"  # the module of wgpu-py that gives its header to cffi


class _Declarations(SourceFileLoader):
    """A loader of C declarations. Its byte code has their checksum where Python keeps the date of a file."""

    def __init__(self, declarations: str) -> None:
        super().__init__(_NAME, str(Path(__file__).with_name(f"{_NAME}.py")))
        self._declarations = declarations

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Return what byte code of these declarations has; not a size, which would be that of the module."""
        return {"mtime": zlib.crc32(self._declarations.encode()), "size": None}

    def get_data(self, path: str) -> bytes:
        """Return a file of byte code, or the module that cffi writes of the declarations."""
        if path != self.path:
            return super().get_data(path)
        from cffi import FFI

        written, ffi = io.StringIO(), FFI()
        ffi.cdef(self._declarations)
        ffi.set_source(_NAME, None, compiler_verbose=0)  # or it prints the name of the file
        ffi.emit_python_code(written)
        return written.getvalue().encode()


def parsed(declarations: str) -> Any:
    """Return the FFI of C declarations, from byte code where there is some."""
    module = ModuleType(_NAME)
    _Declarations(declarations).exec_module(module)
    return module.ffi


class _LibraryFFI:
    """A substitute for cffi's FFI, to which wgpu-py gives its header."""

    def __init__(self) -> None:
        self.found: Any = None

    def cdef(self, declarations: str) -> None:
        """Take the declarations; parse them in place if they cannot be had as a module."""
        from cffi import FFI

        try:
            self.found = parsed(declarations)
        except Exception:  # damaged byte code, or another cffi
            self.found = FFI()
            self.found.cdef(declarations)

    def set_source(self, *_: Any) -> None:
        """Ignore the name of a module that wgpu-py does not write."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.found, name)


class _LibraryLoader(SourceFileLoader):
    """The loader of wgpu-py's module, for which `from cffi import FFI` finds `_LibraryFFI`."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then give it the FFI itself."""
        ffi = _LibraryFFI()

        def find(name: str, *rest: Any) -> Any:
            found = builtins.__import__(name, *rest)
            return SimpleNamespace(**{**vars(found), "FFI": lambda: ffi}) if name == "cffi" else found

        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": find}
        super().exec_module(module)
        module.__dict__.update(ffi=ffi.found, __builtins__=vars(builtins))


class _Finder(MetaPathFinder):
    """Finds wgpu-py's module where Python does, if that is a file."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return how the module is loaded; None for all others."""
        found = PathFinder.find_spec(name, path, target) if name == _LIBRARY else None
        if found is None or type(found.loader) is not SourceFileLoader:
            return None
        file = found.loader.path
        return spec_from_file_location(name, file, loader=_LibraryLoader(name, file))


def prepare() -> None:
    """Have wgpu-py's library declared this way when it is first imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
