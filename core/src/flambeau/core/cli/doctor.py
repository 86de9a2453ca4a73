"""`flambeau doctor`: one screen about this installation, and what to do about what is wrong.

`--json` prints::

    {"versions": {"flambeau-core", "api", "python", "torch": text|null, "platform"},
     "plugins": [as `flambeau plugins list --json`, and "faults": what full validation finds in the manifest],
     "kernels": [as `flambeau kernels status --json`], "kernels_error": text|null,
     "cpu": {"capability", "threads"}|null, "triton": version|null, "ffmpeg": path|null,
     "cache": {"path", "size": bytes, "free": bytes, "writable": bool, "offline": bool},
     "environment": [{"name", "value": text|null, "default", "meaning"}],
     "checks": [{"plugin", "name", "ok": bool, "detail", "remedy": text|null}],
     "problems": [{"about", "problem", "remedy": text|null}]}

`checks` come from the plugins' hook `flambeau_doctor`, which returns such dictionaries without `plugin`. Credentials in
addresses are masked. The exit code is 3 when a plugin is broken or incompatible, 1 when anything else is wrong.
"""

from __future__ import annotations

import argparse
from typing import Any

from flambeau.core.cli import plugin_rows
from flambeau.core.cli.kernels import show_operators
from flambeau.core.cli.output import print_json, size
from flambeau.core.cli.parser import Parser, add_json
from flambeau.core.terminal import printable


def configure(parser: Parser) -> None:
    """Add the one option."""
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Examine the installation and print what was found."""
    from flambeau.core.cli.diagnosis import diagnose

    facts = diagnose()
    if arguments.json:
        print_json(facts)
    else:
        _print(facts)
    if any(plugin["state"] in plugin_rows.FAULTY for plugin in facts["plugins"]):
        return plugin_rows.BROKEN
    return int(bool(facts["problems"]))


def _print(facts: dict[str, Any]) -> None:
    versions, cpu, cache = facts["versions"], facts["cpu"], facts["cache"]
    _say(f"flambeau-core {versions['flambeau-core']} (plugin interface {versions['api']}), Python {versions['python']}")
    processor = f", {cpu['capability']}, {cpu['threads']} threads" if cpu else ""
    _say(f"torch {versions['torch'] or 'not installed'}, {versions['platform']}{processor}")
    _section("plugins", [_plugin(plugin) for plugin in facts["plugins"]])
    _section("kernels", [_kernel(kernel) for kernel in facts["kernels"]])
    _section(
        "checks",
        [f"{c['plugin']}: {c['name']}: {'ok' if c['ok'] else 'FAILED'} {c['detail']}" for c in facts["checks"]],
    )
    offline = ", offline" if cache["offline"] else ""
    tools = [
        f"Triton {facts['triton'] or 'not installed'}",
        f"FFmpeg {facts['ffmpeg'] or 'not found'}",
        f"cache {cache['path']}: {size(cache['size'])} used, {size(cache['free'])} free{offline}",
    ]
    _section("tools", tools)
    _section("environment", [_variable(variable) for variable in facts["environment"]])
    _say("problems" if facts["problems"] else "No problem was found.")
    for problem in facts["problems"]:
        _say(f"  {problem['about']}: {problem['problem']}")
        if problem["remedy"]:
            _say(f"      remedy: {problem['remedy']}")


def _section(title: str, lines: list[str]) -> None:
    _say(title)
    for line in lines or ["none"]:
        _say(f"  {line}")


def _say(text: str) -> None:
    print(printable(text))


def _plugin(plugin: dict[str, Any]) -> str:
    origin = f"{plugin['distribution']} {plugin['version']}{', in place' if plugin['editable'] else ''}"
    provides = plugin_rows.show_counts(plugin["provides"])
    return f"{plugin['name']} ({origin}): {plugin['state']}{f', {provides}' if provides else ''}"


def _kernel(kernel: dict[str, Any]) -> str:
    reason = f" ({kernel['reason']})" if kernel["reason"] else ""
    built = "" if kernel["library"] else ", not built"
    operators = show_operators(kernel["operators"])
    return f"{kernel['namespace']}: {kernel['provider']}{built}{reason}{f': {operators}' if operators else ''}"


def _variable(variable: dict[str, str | None]) -> str:
    value, default = variable["value"], variable["default"]
    state = f"not set ({default})" if value is None and default else "not set" if value is None else value
    return f"{variable['name']}: {state}"
