"""The facts behind `flambeau doctor`, gathered so that one broken thing does not hide the others."""

from __future__ import annotations

import os
import platform
import re
import shutil
import warnings
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from flambeau.core.cli import plugin_rows
from flambeau.core.environment import VARIABLES, flag, home, overridden
from flambeau.core.errors import PluginWarning
from flambeau.core.plugins.manager import current_snapshot, owner_of
from flambeau.core.plugins.plugin import Plugin
from flambeau.core.version import API_VERSION, __version__

_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")


def diagnose() -> dict[str, Any]:
    """Everything that `flambeau doctor --json` prints.

    Plugins are judged whatever `FLAMBEAU_STRICT_PLUGINS` says, and nobody is warned: the answer has it all.
    """
    with warnings.catch_warnings(), overridden("FLAMBEAU_STRICT_PLUGINS", "0"):
        warnings.simplefilter("ignore", PluginWarning)
        plugin_rows.load(plugin_rows.choose())
        checks = _hooked_checks()
        kernels, kernels_error = _kernels()
        facts: dict[str, Any] = {
            "versions": _versions(),
            "plugins": [_plugin(plugin) for plugin in plugin_rows.choose()],
            "kernels": kernels,
            "kernels_error": kernels_error,
            "cpu": _cpu() if kernels_error is None else None,
            "triton": _version("triton", "pytorch-triton", "triton-windows"),
            "ffmpeg": shutil.which("ffmpeg"),
            "cache": _cache(),
        }
    return facts | {
        "environment": [_variable(name.name, name.default, name.meaning) for name in VARIABLES],
        "checks": checks,
        "problems": _problems(facts, checks),
    }


def _versions() -> dict[str, str | None]:
    return {
        "flambeau-core": __version__,
        "api": ".".join(map(str, API_VERSION)),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _version(*distributions: str) -> str | None:
    """The version of the first of these distributions that is installed; imports nothing."""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _plugin(plugin: Plugin) -> dict[str, Any]:
    return plugin_rows.row(plugin) | {"faults": _faults(plugin) if plugin.state == "ok" else []}


def _faults(plugin: Plugin) -> list[str]:
    """What full validation finds in a manifest that reading it quickly let pass."""
    from flambeau.core.manifest.schema import validate_manifest

    manifest = current_snapshot().manifests.get(plugin.name)
    return validate_manifest(manifest) if manifest is not None else []


def _hooked_checks() -> list[dict[str, Any]]:
    from flambeau.core.plugins.hooks import run_hook

    return [
        _check(plugin, result)
        for plugin, results in sorted(run_hook("flambeau_doctor"), key=lambda result: result[0])
        for result in (results if isinstance(results, list) else [results])
    ]


def _check(plugin: str, result: object) -> dict[str, Any]:
    """A check as a plugin's hook returned it, which may be anything, as the output has it."""
    if not isinstance(result, Mapping):
        detail = f"flambeau_doctor returned {result!r}, expected a list of dictionaries"
        return {"plugin": plugin, "name": "flambeau_doctor", "ok": False, "detail": detail, "remedy": None}
    remedy = result.get("remedy")
    return {
        "plugin": plugin,
        "name": str(result.get("name", "")),
        "ok": bool(result.get("ok", True)),
        "detail": str(result.get("detail", "")),
        "remedy": None if remedy is None else str(remedy),
    }


def _kernels() -> tuple[list[dict[str, Any]], str | None]:
    try:
        from flambeau.core.native.report import status

        return status(), None
    except (ImportError, OSError) as error:  # torch is absent, or its libraries do not load
        return [], f"{type(error).__name__}: {error}"


def _cpu() -> dict[str, Any]:
    import torch

    return {"capability": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}


def _cache() -> dict[str, Any]:
    from flambeau.core.hub.cache import disk_size

    path = home()
    there = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    return {
        "path": str(path),
        "size": disk_size(path) if there == path else 0,
        "free": shutil.disk_usage(there).free,
        "writable": os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK),  # noqa: PTH112
        "offline": flag("FLAMBEAU_OFFLINE"),
    }


def _variable(name: str, default: str, meaning: str) -> dict[str, str | None]:
    value = os.environ.get(name)
    hidden = None if value is None else _CREDENTIALS.sub("***@", value)  # the output is made to be shared
    return {"name": name, "value": hidden, "default": default, "meaning": meaning}


def _problems(facts: dict[str, Any], checks: list[dict[str, Any]]) -> list[dict[str, str | None]]:
    """Everything that is wrong, in one list: about what, what, and what to do."""
    found: list[dict[str, str | None]] = []
    for plugin in facts["plugins"]:
        about = f"plugin {plugin['name']}"
        if plugin["state"] not in ("ok", "disabled"):
            found.append(
                {"about": about, "problem": f"{plugin['state']}: {plugin['error']}", "remedy": plugin["remedy"]}
            )
        advice = f"tell the author of {plugin['distribution']}"
        found += [{"about": about, "problem": fault, "remedy": advice} for fault in plugin["faults"]]
    if facts["versions"]["torch"] is None:
        found.append({"about": "torch", "problem": "not installed", "remedy": "see https://pytorch.org/get-started"})
    elif facts["kernels_error"]:
        remedy = "reinstall torch, or see `python -c 'import torch'`"
        found.append({"about": "torch", "problem": facts["kernels_error"], "remedy": remedy})
    found += [
        {"about": f"kernels {kernel['namespace']}", "problem": kernel["reason"], "remedy": _rebuild(kernel["package"])}
        for kernel in facts["kernels"]
        if kernel["library"] and kernel["provider"] == "python" and os.environ.get("FLAMBEAU_NATIVE") != "off"
    ]
    if not facts["cache"]["writable"]:
        remedy = "set FLAMBEAU_HOME to a folder you may write to"
        found.append({"about": "cache", "problem": f"{facts['cache']['path']} cannot be written", "remedy": remedy})
    failed = [check for check in checks if not check["ok"]]
    found += [
        {"about": f"{check['plugin']}: {check['name']}", "problem": check["detail"], "remedy": check["remedy"]}
        for check in failed
    ]
    return found


def _rebuild(package: str) -> str:
    owner = owner_of(package)
    again = "rebuild it with flambeau/kernel.h, see `flambeau.core.native.include_dir()`"
    return f"{again}; or: {plugin_rows.reinstall(owner.distribution)}" if owner else again
