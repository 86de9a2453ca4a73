"""Options of schedulers: their types, defaults and texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

from flambeau.core.errors import close_names
from flambeau.launch.errors import LaunchError, RunOptionError

__all__ = ["CfgVal", "InvalidRunConfigException", "get_type_name", "runopt", "runopts"]

CfgVal = Union[str, int, float, bool, list[str], dict[str, str], None]  # noqa: UP007  (as it is read at run time)


class InvalidRunConfigException(LaunchError):
    """An option that is missing, or of another type than its own.

    Attributes:
        cfg_key: the option.
    """

    def __init__(self, invalid_reason: str, cfg_key: str, cfg: Mapping[str, CfgVal]) -> None:
        given = dict(cfg) if cfg else "nothing"
        super().__init__(f"{invalid_reason.rstrip('.')}. Given: {given}")
        self.cfg_key = cfg_key


@dataclass
class runopt:
    """One option.

    Attributes:
        default: its value where none is given.
        opt_type: its type: str, int, float, bool, `List[str]` or `Dict[str, str]`.
        is_required: whether it must be given.
        help: what it does.
    """

    default: CfgVal
    opt_type: Any
    is_required: bool
    help: str


class runopts:
    """The options of one scheduler, in the order in which they were added.

    Example:
        >>> options = runopts()
        >>> options.add("queue", type_=str, help="where to wait", required=True)
        >>> options.add("priority", type_=int, default=0, help="the more the sooner")
        >>> options.resolve({"queue": "day"})
        {'queue': 'day', 'priority': 0}
    """

    def __init__(self) -> None:
        self._opts: dict[str, runopt] = {}

    def __iter__(self) -> Any:
        return iter(self._opts.items())

    def __len__(self) -> int:
        return len(self._opts)

    @staticmethod
    def is_type(obj: CfgVal, tp: Any) -> bool:
        """Whether a value is of an option's type; of lists and dictionaries all elements must be text."""
        origin = getattr(tp, "__origin__", tp)
        if origin is list:
            return isinstance(obj, list) and all(isinstance(item, str) for item in obj)
        if origin is dict:
            return isinstance(obj, dict) and all(isinstance(text, str) for pair in obj.items() for text in pair)
        return isinstance(obj, origin)

    def get(self, name: str) -> runopt | None:
        """One option; None where there is none of this name."""
        return self._opts.get(name)

    def add(self, cfg_key: str, type_: Any, help: str, default: CfgVal = None, required: bool = False) -> None:
        """Add an option.

        Raises:
            TypeError: the default is not of the type.
            RunOptionError: (a ValueError) a required option has a default.
        """
        if required and default is not None:
            raise RunOptionError(f"option {cfg_key!r} is required and so needs no default; given {default!r}.")
        if default is not None and not self.is_type(default, type_):
            raise TypeError(f"option {cfg_key!r} is of type {get_type_name(type_)}; its default is {default!r}.")
        self._opts[cfg_key] = runopt(default, type_, required, help)

    def update(self, other: runopts) -> None:
        """Add the options of another; of equal names the other's hold."""
        self._opts.update(other._opts)

    def resolve(self, cfg: Mapping[str, CfgVal]) -> dict[str, CfgVal]:
        """Check values, and add the defaults of what is not given.

        Args:
            cfg: by option; what is no option of this scheduler is kept, as configuration files hold those of others.

        Raises:
            InvalidRunConfigException: a required option is missing, or a value is of another type.
        """
        resolved: dict[str, CfgVal] = dict(cfg)
        for key, option in self._opts.items():
            value = resolved.get(key)
            if value is not None:
                if not self.is_type(value, option.opt_type):
                    expected, kind = get_type_name(option.opt_type), type(value).__name__
                    reason = f"option {key!r} must be of type {expected}; it is {value!r}, of type {kind}"
                    raise InvalidRunConfigException(reason, key, cfg)
            elif option.is_required:
                reason = f"option {key!r} is required: {option.help.rstrip('.')}. Give it as `-cfg {key}=VALUE`"
                raise InvalidRunConfigException(reason, key, cfg)
            else:
                resolved[key] = option.default
        return resolved

    def cfg_from_str(self, cfg_str: str) -> dict[str, CfgVal]:
        """Options that are written as `key=value` between commas or semicolons.

        Lists have their elements between commas or semicolons, dictionaries their pairs as `key:value`. Names that are
        no options are left out, as upstream does.

        Raises:
            RunOptionError: (a ValueError) the text holds no pairs, or a value is not of its option's type.

        Example:
            >>> options = runopts()
            >>> options.add("subnets", type_=list[str], help="networks")
            >>> options.add("share", type_=int, help="weight")
            >>> options.cfg_from_str("subnets=a,b,share=3")
            {'subnets': ['a', 'b'], 'share': 3}
        """
        from flambeau.launch.util.types import to_dict

        try:
            pairs = to_dict(cfg_str)
        except ValueError as error:
            raise RunOptionError(f"scheduler options: {error}") from None
        return {key: self._read(key, value, option) for key, value in pairs.items() if (option := self.get(key))}

    def unknown(self, names: Mapping[str, object] | list[str]) -> str:
        """A sentence about the first name that is no option, with the nearest ones; empty where all are."""
        for name in names:
            if name not in self._opts:
                near = close_names(name, self._opts)
                hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self._opts) or 'none'}."
                return f"no option {name!r}; {hint}"
        return ""

    def cfg_from_json_repr(self, json_repr: str) -> dict[str, CfgVal]:
        """Options that are written as a JSON object, each of its own type; names that are no options are left out."""
        import json

        given = json.loads(json_repr)
        if not isinstance(given, dict):
            raise RunOptionError(f"scheduler options: expected a JSON object, got {json_repr!r}.")
        return {key: value for key, value in given.items() if key in self._opts}

    @staticmethod
    def _read(key: str, text: str, option: runopt) -> CfgVal:
        kind = getattr(option.opt_type, "__origin__", option.opt_type)
        if kind is bool:
            return text.lower() == "true"
        if kind is list:
            return [word.strip() for word in text.replace(";", ",").split(",") if word.strip()]
        if kind is dict:
            pairs = [word.partition(":") for word in text.replace(";", ",").split(",") if word.strip()]
            if broken := next((name for name, separator, _ in pairs if not separator), None):
                raise RunOptionError(f"option {key!r}: {broken!r} is no pair; expected KEY:VALUE[;KEY:VALUE...].")
            return {name.strip(): value.strip() for name, _, value in pairs}
        try:
            value: CfgVal = kind(text)
        except ValueError:
            raise RunOptionError(f"option {key!r} must be of type {kind.__name__}; given {text!r}.") from None
        return value

    def __repr__(self) -> str:
        return _formatted(self._opts)


def _formatted(options: Mapping[str, runopt]) -> str:
    required = {key: option for key, option in options.items() if option.is_required}
    optional = {key: option for key, option in options.items() if not option.is_required}
    usage = ",".join([*(f"{k}={k.upper()}" for k in required), *(f"[{k}={k.upper()}]" for k in optional)])
    lines = ["    usage:", f"        {usage}"]
    for title, group in (("required arguments", required), ("optional arguments", optional)):
        if group:
            lines += ["", f"    {title}:"]
        for key, option in group.items():
            kind = get_type_name(option.opt_type)
            about = kind if option.is_required else f"{kind}, {option.default}"
            lines += [f"        {key}={key.upper()} ({about})", f"            {option.help}"]
    return "\n".join(lines)


def get_type_name(tp: Any) -> str:
    """A type as help texts show it."""
    if getattr(tp, "__origin__", None) is None and hasattr(tp, "__name__"):
        return str(tp.__name__)
    return str(tp)
