"""The socket for native kernels: one library per plugin, one wheel for every torch, an answer even without a library.

A plugin's kernels are C++ with a plain C interface (`flambeau/kernel.h`), in one shared library that links neither
torch nor OpenMP. Each operator is declared once, in Python, with `register_op`: schema, shape-only twin, gradient, and
the implementations, of which the first that works serves:

==============  ============================================================================================
dispatcher      the library registers its kernels with torch's dispatcher itself, through libtorch's C interface
ctypes          a Python function over the same C symbols
python          the plain torch reference; also on other devices, and wherever there is no library
==============  ============================================================================================

CUDA and XPU take a Triton kernel where there is one. `status()` says which tier serves and why;
`FLAMBEAU_NATIVE` chooses: `auto`, `dispatcher`, `ctypes` or `off`.
"""

from __future__ import annotations

from flambeau.core.native.library import LIBRARIES, KernelLibrary
from flambeau.core.native.operators import register_op
from flambeau.core.native.paths import cmake_dir, include_dir
from flambeau.core.native.report import status

__all__ = ["LIBRARIES", "KernelLibrary", "cmake_dir", "include_dir", "register_op", "status"]
