"""Environment variables, the folders that follow from them, and the user's configuration file.

`VARIABLES` is the one list of what Flambeau reads from the environment; `flambeau doctor` prints it.
Values are read when they are needed, never at import, so that a test or a notebook can change them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flambeau.core.errors import ConfigError
from flambeau.core.files import lock, write_atomic


@dataclass(frozen=True)
class Variable:
    """One environment variable: its name, what it means, and what holds without it."""

    name: str
    meaning: str
    default: str


VARIABLES: tuple[Variable, ...] = (
    Variable("FLAMBEAU_HOME", "root of cache and configuration", "$XDG_CACHE_HOME/flambeau, else ~/.cache/flambeau"),
    Variable("FLAMBEAU_OFFLINE", "1: never open a socket", "0"),
    Variable("FLAMBEAU_MIRRORS", "prefix=replacement pairs, separated by ';', tried before the original URL", ""),
    Variable("FLAMBEAU_DISABLE_PLUGINS", "plugin names to leave out, separated by ','; * is every plugin", ""),
    Variable("FLAMBEAU_STRICT_PLUGINS", "1: a broken or incompatible plugin raises instead of warning", "0"),
    Variable("FLAMBEAU_NATIVE", "kernel tier: auto, dispatcher, ctypes or off", "auto"),
    Variable("FLAMBEAU_IMAGE_CODECS", "what reads and writes image files: auto, or pillow for all", "auto"),
    Variable("FLAMBEAU_FFMPEG", "the ffmpeg program that audio runs", "on PATH, else imageio-ffmpeg's"),
    Variable("FLAMBEAU_FUSED_TRANSFORMS", "0: pipelines of vision run their steps one by one", "1"),
    Variable("FLAMBEAU_PROGRESS", "0 hides progress, 1 shows it even where stderr is no terminal", "on a terminal"),
    Variable("FLAMBEAU_TOKEN_FILE", "JSON file, host -> bearer token, readable by its owner alone", ""),
    Variable("TORCH_HOME", "checkpoints already there are used, never written", "~/.cache/torch"),
    Variable("HTTPS_PROXY", "proxy for https URLs; HTTP_PROXY and NO_PROXY likewise", ""),
    Variable("SSL_CERT_FILE", "certificate bundle; REQUESTS_CA_BUNDLE is understood too", "the system's"),
)


def flag(name: str) -> bool:
    """Whether a variable is switched on: any value but the empty one, 0, false, no and off."""
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


@contextlib.contextmanager
def overridden(name: str, value: str) -> Iterator[None]:
    """Set a variable for the duration of a `with` block, in this process and for programs it starts."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def home() -> Path:
    """Root of cache and configuration. It need not exist yet."""
    if chosen := os.environ.get("FLAMBEAU_HOME"):
        return Path(chosen).expanduser()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local, "flambeau", "Cache")
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base, "flambeau")
    return Path.home() / ".cache" / "flambeau"


def config_path() -> Path:
    """Where the user's choices are kept."""
    return home() / "config.json"


def read_config() -> dict[str, Any]:
    """The user's choices; an absent file is an empty dictionary.

    Raises:
        ConfigError: the file cannot be read or is not a JSON object.
    """
    path = config_path()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); correct it or set FLAMBEAU_HOME.") from error
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON ({error}); correct it or remove it.") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path} holds a {type(config).__name__}, expected a JSON object; correct it or remove it.")
    return config


def update_config(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Apply `change` to the configuration under a lock and write it back whole; returns what was written.

    Raises:
        ConfigError: the file is damaged, or cannot be written.
    """
    path = config_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock(path):
            config = read_config()
            change(config)
            write_atomic(path, json.dumps(config, indent=2, sort_keys=True) + "\n")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror or error}); "
            "set FLAMBEAU_HOME to a folder that you may write to."
        ) from error
    return config
