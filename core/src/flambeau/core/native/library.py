"""One shared library of kernels: finding it, loading it, and how it is bound to the running torch."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from flambeau.core.native.tiers import dispatcher_objection, libtorch_path, logger, wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    from typing import Any

    from flambeau.core.native.tiers import Tier

# What `FB_ABI` of kernel.h must be.
ABI = 1

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")

# `fb::Bound` of kernel.h.
_OPERATORS, _TORCH_THREADS, _OPENMP_THREADS = 1, 2, 4

LIBRARIES: list[KernelLibrary] = []
"""Every library declared in this process, in order of declaration."""


class KernelLibrary:
    """The kernels of one plugin: a shared library beside its Python code, and a namespace in `torch.ops`.

    Declaring it loads nothing. It is loaded when an operator is registered or a function asked for, once; a library
    that is absent, damaged or built for another machine is no error: `provider` is then "python" and `reason` says why.

    Args:
        package: the importable package that the library is installed into, for example "flambeau.vision".
        stem: file name without suffix.
        namespace: of its operators, `torch.ops.<namespace>`; by convention `flambeau_<domain>`.

    Example:
        >>> library = KernelLibrary("flambeau.core", "_no_kernels_here", namespace="flambeau_example")
        >>> library.provider
        'python'
    """

    def __init__(self, package: str, stem: str = "_kernels", *, namespace: str) -> None:
        self.package = package
        self.stem = stem
        self.namespace = namespace
        self.operators: dict[str, dict[str, Any]] = {}
        self._lock = threading.RLock()
        self._loaded = False
        self._handle: ctypes.CDLL | None = None
        self._path: Path | None = None
        self._provider: Tier = "python"
        self._reason = ""
        self._threads = "none"
        self._fragment: Any = None
        LIBRARIES[:] = [known for known in LIBRARIES if (known.package, known.stem) != (package, stem)] + [self]

    def __repr__(self) -> str:
        return f"KernelLibrary({self.package!r}, {self.stem!r}, namespace={self.namespace!r})"

    @property
    def path(self) -> Path | None:
        """The library's file, or None when the package has none for this platform."""
        if self._path is None:
            self._path = _find(self.package, self.stem + _SUFFIX)
        return self._path

    @property
    def provider(self) -> Tier:
        """The tier that serves: "dispatcher", "ctypes" (also for functions that are no operators) or "python"."""
        self.load()
        return self._provider

    @property
    def reason(self) -> str:
        """Why no better tier serves; empty when the best does."""
        self.load()
        return self._reason

    @property
    def threads(self) -> str:
        """Whose threads the kernels use: "torch", "openmp" (torch 2.8 and 2.9, through the same pool) or "none"."""
        self.load()
        return self._threads

    def load(self) -> ctypes.CDLL | None:
        """Load the library, once, and bind it to torch. None when the python tier serves. Never raises."""
        with self._lock:
            if not self._loaded:
                self._loaded = True
                self._handle = self._open()
                if self._handle is not None:
                    self._bind(self._handle)
                logger.debug("%r: %s%s", self, self._provider, f" ({self._reason})" if self._reason else "")
        return self._handle

    def function(self, name: str, argtypes: Sequence[Any], restype: Any) -> Callable[..., Any]:
        """A C function of the library, typed.

        Args:
            name: of the symbol, for example "fb_nms_f32".
            argtypes: ctypes types of the arguments.
            restype: ctypes type of the result, None for void.

        Raises:
            RuntimeError: the library could not be loaded; the message says why.
            AttributeError: it has no such symbol.
        """
        handle = self.load()
        if handle is None:
            raise RuntimeError(f"{name} of {self.package} cannot be called: {self._reason}.")
        function = handle[name]
        function.argtypes = list(argtypes)
        function.restype = restype
        return function

    def native_operators(self) -> list[str]:
        """Names of the operators that the library itself offers to the dispatcher, sorted."""
        handle = self.load()
        return [] if handle is None else _names(handle)

    def register(self, operator: str) -> str:
        """Have the library register its CPU kernel of an operator; returns why it did not, empty when it did."""
        if self.provider != "dispatcher":
            return self._reason
        import ctypes

        call = self.function("fb_register", [ctypes.c_char_p, ctypes.c_char_p], ctypes.c_int32)
        outcome = int(call(self.namespace.encode(), operator.encode()))
        return {
            0: "",
            1: f"{self.path} has no operator {operator!r}",
        }.get(outcome, f"torch refused the kernel of {self.namespace}::{operator}")

    def fragment(self) -> Any:
        """The `torch.library.Library` of Python's registrations in this namespace; they live as long as it does."""
        if self._fragment is None:
            import torch

            open_library: Any = torch.library.Library
            self._fragment = open_library(self.namespace, "FRAGMENT")
        return self._fragment

    def _open(self) -> ctypes.CDLL | None:
        import ctypes

        if "ctypes" not in wanted():
            self._reason = "FLAMBEAU_NATIVE=off"
            return None
        if self.path is None:
            self._reason = f"no file {self.stem}{_SUFFIX} in package {self.package}"
            return None
        try:
            handle = ctypes.CDLL(str(self.path))
        except OSError as error:
            self._reason = f"{self.path} cannot be loaded: {error}"
            return None
        if not _has(handle, "fb_abi"):
            self._reason = f"{self.path} was not built with flambeau/kernel.h"
            return None
        if (number := handle.fb_abi()) != ABI:
            self._reason = (
                f"{self.path} was built for kernel interface {number}, this flambeau-core has {ABI}; rebuild it"
            )
            return None
        return handle

    def _bind(self, handle: ctypes.CDLL) -> None:
        import ctypes

        import torch

        self._provider = "ctypes"
        handle.fb_bind.argtypes = [ctypes.c_char_p]
        found = handle.fb_bind(str(libtorch_path()).encode())
        self._threads = "torch" if found & _TORCH_THREADS else "openmp" if found & _OPENMP_THREADS else "none"
        if not _names(handle):
            return  # plain functions alone, which ctypes calls
        if "dispatcher" not in wanted():
            self._reason = "FLAMBEAU_NATIVE=ctypes"
        elif objection := dispatcher_objection(str(torch.__version__)):
            self._reason = objection
        elif not found & _OPERATORS:
            self._reason = f"libtorch of torch {torch.__version__} does not offer its C interface"
        else:
            self._provider = "dispatcher"


def _has(handle: ctypes.CDLL, symbol: str) -> bool:
    try:
        handle[symbol]
    except AttributeError:
        return False
    return True


def _names(handle: ctypes.CDLL) -> list[str]:
    """The library's own operators, sorted."""
    import ctypes

    if not _has(handle, "fb_operator"):
        return []
    read = handle["fb_operator"]
    read.argtypes, read.restype = [ctypes.c_int32], ctypes.c_char_p
    names: list[str] = []
    while (name := read(len(names))) is not None:
        names.append(name.decode())
    return sorted(names)


def _find(package: str, file_name: str) -> Path | None:
    """A file of a package, without importing the package itself.

    An editable install has Python in the source tree and the library in site-packages, in a folder of the same name:
    every folder that the package could be in is looked at.
    """
    parent, _, name = package.rpartition(".")
    try:
        spec = importlib.util.find_spec(package)
        above = importlib.util.find_spec(parent) if parent else None
    except (ImportError, ValueError):
        return None
    own = list(spec.submodule_search_locations or ()) if spec else []
    roots = list(above.submodule_search_locations or ()) if above else sys.path
    inside = Path(*package.split("."))
    folders = [*map(Path, own), *(Path(root, name) for root in roots), *(Path(root, inside) for root in sys.path)]
    return next((folder / file_name for folder in folders if (folder / file_name).is_file()), None)
