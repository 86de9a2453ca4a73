"""What `flambeau kernels status` and `flambeau doctor` say about native kernels."""

from __future__ import annotations

from typing import Any

from flambeau.core.native.library import LIBRARIES, KernelLibrary
from flambeau.core.plugins.hooks import run_hook
from flambeau.core.plugins.manager import contributions


def status() -> list[dict[str, Any]]:
    """One record per kernel library: those declared in this process, and those that plugins' manifests or hooks name.

    A library is loaded to be judged, which imports torch; the Python code of a plugin with a manifest is not imported.

    Returns:
        Records sorted by namespace: `namespace`, `package`, `library` (path or None), `provider` (dispatcher, ctypes
        or python), `reason` (why no better tier serves, or empty), `threads` (torch, openmp or none) and `operators`:
        names with their own `provider` and `triton` target where they are registered in this process, else None.
    """
    run_hook("flambeau_kernels")  # a library joins LIBRARIES when it is declared
    known = {(library.package, library.stem) for library in LIBRARIES}
    for _, record in contributions("kernels"):
        if (record["package"], record["library"]) not in known:
            KernelLibrary(record["package"], record["library"], namespace=record["namespace"])
    return sorted((_record(library) for library in LIBRARIES), key=lambda record: str(record["namespace"]))


def _record(library: KernelLibrary) -> dict[str, Any]:
    names = sorted({*library.operators, *library.native_operators()})
    return {
        "namespace": library.namespace,
        "package": library.package,
        "library": str(library.path) if library.path else None,
        "provider": library.provider,
        "reason": library.reason,
        "threads": library.threads,
        "operators": [
            {
                "name": name,
                "provider": library.operators.get(name, {}).get("provider"),
                "triton": library.operators.get(name, {}).get("triton"),
            }
            for name in names
        ],
    }
