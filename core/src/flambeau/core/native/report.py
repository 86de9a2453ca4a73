"""What `flambeau kernels status` and `flambeau doctor` say about native kernels."""

from __future__ import annotations

from typing import Any

from flambeau.core.native.library import LIBRARIES, KernelLibrary


def status() -> list[dict[str, Any]]:
    """One record per kernel library: those declared in this process and those that plugins' manifests name.

    A library is loaded to be judged, which imports torch; its plugin's Python code is not imported.

    Returns:
        Records sorted by namespace: `namespace`, `package`, `library` (path or None), `provider` (dispatcher, ctypes
        or python), `reason` (why no better tier serves, or empty), `threads` (torch, openmp or none) and `operators`:
        names with their own `provider` and `triton` target where they are registered in this process, else None.
    """
    known = {(library.package, library.stem): library for library in LIBRARIES}
    for package, stem, namespace in _declared():
        if (package, stem) not in known:
            known[package, stem] = KernelLibrary(package, stem, namespace=namespace)
    return sorted((_record(library) for library in known.values()), key=lambda record: str(record["namespace"]))


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


def _declared() -> list[tuple[str, str, str]]:
    """(package, library, namespace) of every kernel library in an enabled plugin's manifest."""
    import json

    from flambeau.core.plugins import discover

    records = []
    for plugin in discover().values():
        if plugin.state != "ok" or plugin.manifest_path is None:
            continue
        manifest = json.loads(plugin.manifest_path.read_text(encoding="utf-8"))
        records += [
            (kernel["package"], kernel["library"], kernel["namespace"]) for kernel in manifest.get("kernels", ())
        ]
    return records
