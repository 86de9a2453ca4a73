"""Configuration files: options of schedulers, arguments of components and of the command line, trackers.

The format is INI::

    [slurm]
    partition = long
    job_dir = None

    [component:dist.ddp]
    j = 2x8

    [cli:run]
    component = train.py:trainer
    workspace = .

    [torchx:tracker]
    fsspec =

    [tracker:fsspec]
    config = /runs/tracker.conf

Files are looked for in the home folder and in the current one; of the same option in both, the current folder's holds.
Where the environment variable FLAMBEAUCONFIG or TORCHXCONFIG names a file, it is the only one. In a folder
`.flambeauconfig` counts, else `.torchxconfig`. What the command line or a call says stands over all files.
"""

from __future__ import annotations

import configparser
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from flambeau.launch.errors import ConfigurationError, RunOptionError
from flambeau.launch.specs.options import CfgVal, runopt

__all__ = [
    "CONFIG_FILE",
    "CONFIG_FILES",
    "CONFIG_PREFIX_DELIM",
    "DEFAULT_CONFIG_DIRS",
    "ENV_TORCHXCONFIG",
    "apply",
    "dump",
    "find_configs",
    "get_config",
    "get_configs",
    "load",
    "load_sections",
]

log = logging.getLogger(__name__)

CONFIG_FILES = (".flambeauconfig", ".torchxconfig")
CONFIG_FILE = ".torchxconfig"
OWN_CONFIG_FILE = CONFIG_FILES[0]
CONFIG_PREFIX_DELIM = ":"
ENV_TORCHXCONFIG = "TORCHXCONFIG"
ENV_CONFIG = ("FLAMBEAUCONFIG", ENV_TORCHXCONFIG)
DEFAULT_CONFIG_DIRS = [str(Path.home()), str(Path.cwd())]
_NONE = "None"


def _parser() -> configparser.ConfigParser:
    # Values hold "%" and names have upper-case letters; neither means anything here.
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    return parser


def _read(file: str | TextIO) -> configparser.ConfigParser:
    parser = _parser()
    try:
        if isinstance(file, str):
            with open(file, encoding="utf-8") as lines:  # noqa: PTH123  (the name is a text throughout)
                parser.read_file(lines)
        else:
            parser.read_file(file)
    except (configparser.Error, UnicodeDecodeError, OSError) as error:
        name = file if isinstance(file, str) else getattr(file, "name", "the configuration")
        raise ConfigurationError(f"{name} cannot be read: {error}. Correct it, or move it away.") from None
    return parser


def dump(f: TextIO, schedulers: list[str] | None = None, required_only: bool = False) -> None:
    """Write a configuration file with the options of schedulers, to be filled in.

    Args:
        f: where to.
        schedulers: their names; None for all that can be used here.
        required_only: only the options that must be given.

    Raises:
        ConfigurationError: (a ValueError) there is no such scheduler.
    """
    from flambeau.launch.errors import MissingBackend
    from flambeau.launch.schedulers import get_scheduler_factories

    factories = get_scheduler_factories()
    parser = _parser()
    for name in schedulers or list(factories):
        if name not in factories:
            raise ConfigurationError(f"there is no scheduler {name!r}; there are {', '.join(factories)}.")
        try:
            options = factories[name]("").run_opts()
        except MissingBackend as error:
            if schedulers:
                raise
            log.info("%s", error)
            continue
        parser.add_section(name)
        for key, option in options:
            if required_only and not option.is_required:
                continue
            parser.set(name, key, f"#FIXME:{option.help}" if option.is_required else _text(option.default))
    parser.write(f, space_around_delimiters=True)


def _text(value: CfgVal) -> str:
    """A value as files have it, and `load` reads it."""
    if value is None:
        return _NONE
    if isinstance(value, list):
        return ";".join(value)
    if isinstance(value, dict):
        return ";".join(f"{key}:{item}" for key, item in value.items())
    return str(value)


def apply(scheduler: str, cfg: dict[str, CfgVal], dirs: list[str] | None = None) -> None:
    """Add the options of a scheduler that files have and `cfg` lacks.

    Args:
        scheduler: its name.
        cfg: options so far, which stay.
        dirs: folders to look in, the strongest first; the current one and the home folder where not given.

    Raises:
        ConfigurationError: (a ValueError) a file cannot be read, or there is no such scheduler.
    """
    for file in find_configs(dirs or _default_folders()):
        with open(file, encoding="utf-8") as lines:  # noqa: PTH123
            load(scheduler, lines, cfg)
        log.info("options of %s come from %s", scheduler, file)


def load(scheduler: str, f: TextIO, cfg: dict[str, CfgVal]) -> None:
    """Add the options of a scheduler that a file has and `cfg` lacks; what is no option of it is told and left out.

    Raises:
        ConfigurationError: (a ValueError) the file cannot be read, or a value is of another type than its option.
    """
    from flambeau.launch.runner.options import scheduler_options

    options = scheduler_options(scheduler)
    parser = _read(f)
    if not parser.has_section(scheduler):
        return
    where = getattr(f, "name", "the configuration")
    for key, text in parser.items(scheduler):
        if key in cfg:
            continue
        option = options.get(key)
        if option is None:
            log.warning("%s: section [%s]: %s", where, scheduler, options.unknown([key]))
        elif text == _NONE:
            cfg[key] = None
        elif not text.startswith("#FIXME:"):
            cfg[key] = _value(where, scheduler, key, text, option)


def _value(where: str, scheduler: str, key: str, text: str, option: runopt) -> CfgVal:
    from flambeau.launch.specs.options import runopts

    try:
        if option.opt_type is bool:
            return configparser.ConfigParser.BOOLEAN_STATES[text.lower()]
        return runopts._read(key, text, option)
    except KeyError:
        raise ConfigurationError(
            f"{where}: section [{scheduler}]: option {key!r} is true or false, not {text!r}."
        ) from None
    except RunOptionError as error:
        raise ConfigurationError(f"{where}: section [{scheduler}]: {error}") from None


def find_configs(dirs: Iterable[str] | None = None) -> list[str]:
    """The files that are there, in the order of the folders.

    Args:
        dirs: folders to look in; the home folder and the current one where not given.

    Raises:
        ConfigurationMissing: (a FileNotFoundError) an environment variable names a file that is not there.
    """
    for variable in ENV_CONFIG:
        if chosen := os.environ.get(variable):
            if not Path(chosen).is_file():
                raise ConfigurationMissing(f"{variable} names {chosen}, which is not a file; correct it, or unset it.")
            return [chosen]
    found: list[str] = []
    for folder in dict.fromkeys(dirs or reversed(_default_folders())):
        files = (Path(folder) / name for name in CONFIG_FILES)
        found += [str(file) for file in files if file.is_file()][:1]
    return found


def _default_folders() -> list[str]:
    return [str(Path.cwd()), str(Path.home())]


class ConfigurationMissing(ConfigurationError, FileNotFoundError):
    """The configuration file that the environment names is not there."""


def load_sections(prefix: str, dirs: list[str] | None = None) -> dict[str, dict[str, str]]:
    """All sections `[prefix:name]`, by their names; of the same option in two files the stronger one's holds.

    Args:
        prefix: such as "component".
        dirs: folders to look in, the strongest first; the current one and the home folder where not given.
    """
    sections: dict[str, dict[str, str]] = {}
    for file in find_configs(dirs or _default_folders()):
        parser = _read(file)
        for section in parser.sections():
            kind, separator, name = section.partition(CONFIG_PREFIX_DELIM)
            if separator and kind == prefix:
                sections[name] = {**dict(parser.items(section)), **sections.get(name, {})}
    return sections


def get_configs(prefix: str, name: str, dirs: list[str] | None = None) -> dict[str, str]:
    """The options of section `[prefix:name]`; empty where no file has it."""
    return load_sections(prefix, dirs).get(name, {})


def get_config(prefix: str, name: str, key: str, dirs: list[str] | None = None) -> str | None:
    """One option of section `[prefix:name]`; None where no file has it."""
    return get_configs(prefix, name, dirs).get(key)
