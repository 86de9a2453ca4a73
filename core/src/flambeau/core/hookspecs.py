"""What a plugin can do in code, beyond what its manifest says.

A plugin implements any of these functions, with any subset of the arguments, in the module that its manifest names
under `hooks` (or that it declares in the entry-point group `flambeau`), each marked with `flambeau.core.hookimpl`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import pluggy

from flambeau.core.registry import Registry

__all__ = ["flambeau_cli", "flambeau_doctor", "flambeau_kernels", "flambeau_register"]

hookspec = pluggy.HookspecMarker("flambeau")
hookimpl = pluggy.HookimplMarker("flambeau")


@hookspec
def flambeau_register(registries: Mapping[str, Registry]) -> None:
    """Add entries that are known only at run time.

    Args:
        registries: "models", "weights", "datasets" and "tensor_types", each with its registry.
    """


@hookspec
def flambeau_cli(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add subcommands to the `flambeau` program; a manifest's `commands` do so without an import."""


@hookspec
def flambeau_doctor() -> list[dict[str, Any]]:  # type: ignore[empty-body]
    """Report the state of what the plugin needs, one dictionary for each check, for `flambeau doctor`."""


@hookspec
def flambeau_kernels() -> list[Any]:  # type: ignore[empty-body]
    """The kernel libraries that the plugin brings and its manifest does not list."""
