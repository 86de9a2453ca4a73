"""What is known about one installed plugin."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flambeau.core.errors import describe
from flambeau.core.terminal import printable

State = Literal["ok", "broken", "incompatible", "shadowed", "disabled"]

# A plugin's name is the first half of every id it registers, and a word on the command line.
NAME_PATTERN = re.compile(r"[a-z][a-z0-9_-]*")

# What to install when a name of a first-party plugin is asked for and the plugin is not there.
FIRST_PARTY = {
    "audio": "flambeau-audio",
    "data": "flambeau-data",
    "influence": "flambeau-influence",
    "launch": "flambeau-launch",
    "rec": "flambeau-rec",
    "rl": "flambeau-rl",
    "text": "flambeau-text",
    "tools": "flambeau-tools",
    "vision": "flambeau-vision",
}


@dataclass(frozen=True)
class Plugin:
    """One installed plugin: where it comes from, and whether it takes part.

    Attributes:
        name: its name, the first half of the ids of its entries.
        distribution: the installed distribution that declares it.
        version: that distribution's version.
        package: the importable package that holds it.
        manifest_path: its manifest file; None for a plugin that has hooks alone, or whose package cannot be found.
        api: the version of the plugin interface that its manifest states.
        state: "ok"; "broken": its manifest, package or hooks failed; "incompatible": written for another core, or
            something it requires is missing or too old; "shadowed": another distribution has the name;
            "disabled": switched off by the user.
        error: why the state is not "ok".
        home_page: where to read about it and report faults.
        editable: whether the distribution is installed in place, from its sources.
        hooks: the module (or `module:object`) with its hook implementations, imported when first needed.
    """

    name: str
    distribution: str
    version: str
    package: str
    manifest_path: Path | None = None
    api: str | None = None
    state: State = "ok"
    error: BaseException | None = None
    home_page: str | None = None
    editable: bool = False
    hooks: str | None = None

    @property
    def origin(self) -> str:
        """Distribution and version, as registry entries state it."""
        return f"{self.distribution} {self.version}"

    @property
    def reason(self) -> str:
        """Why the plugin does not take part, in one sentence; empty where it does."""
        if self.state == "ok":
            return ""
        detail = describe(self.error) if self.error else "no cause was recorded"
        return printable(f"plugin {self.name!r} ({self.origin}) is {self.state}: {detail.removesuffix('.')}.")


def install_command(distribution: str) -> str:
    """The command that installs a distribution for this very interpreter."""
    return f"{sys.executable or 'python'} -m pip install {distribution}"
