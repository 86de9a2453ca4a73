"""What the values in a manifest's records have to be: whoever lists or fetches relies on it, and checks nothing again.

The types of the keys stand in `reading`; here is what the types leave open. A key that is absent has no fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from flambeau.core.hub import addresses

# Bytes and counts that no file system and no model reaches; larger integers cannot even be turned into a float.
LARGEST = 2**63 - 1
# Levels of lists and objects inside one value; JSON that is nested deeper cannot be written by Python's encoder.
DEEPEST = 32

DIGEST_PATTERN = re.compile(r"[0-9a-fA-F]{8,64}")
MODULE_PATTERN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
NAMESPACE_PATTERN = re.compile(r"[A-Za-z_]\w*")
LIBRARY_PATTERN = re.compile(r"[\w.+-]{1,100}")

_DATASET_DIGESTS = {"sha256": 64, "md5": 32}

Check = Callable[[Any], None]


class Fault(ValueError):
    """A value that cannot be used: what it is, what was expected, and where, as a JSON path from the checked value."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(value, expected)
        self.value, self.expected, self.where = value, expected, ""

    def below(self, step: str) -> Fault:
        """The same fault, seen from one level further up."""
        self.where = step + self.where
        return self

    def __str__(self) -> str:
        return f"{self.where} is {shown(self.value)}, expected {self.expected}"


def check_values(table: str, record: Mapping[str, Any]) -> None:
    """Check the values of one record whose keys have the right types.

    Raises:
        Fault: one of them cannot be used.
    """
    for key, check in _CHECKS.get(table, {}).items():
        if key in record:
            try:
                check(record[key])
            except Fault as fault:
                raise fault.below(f".{key}") from fault.__cause__


def shown(value: object) -> str:
    """A value as an error message can hold it: never long, never a whole container."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    try:
        text = ascii(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


# A single value may be null, which says that nothing is known. A list or an object may be left out, but not be null.


def _or_null(check: Check) -> Check:
    def check_unless_null(value: Any) -> None:
        if value is not None:
            check(value)

    return check_unless_null


def _never_null(check: Check) -> Check:
    def check_required(value: Any) -> None:
        if value is None:
            raise Fault(value, "a value")
        check(value)

    return check_required


@_or_null
def _text(value: Any) -> None:
    if not isinstance(value, str):
        raise Fault(value, "a string")


def _matching(pattern: re.Pattern[str], expected: str) -> Check:
    @_or_null
    def check(value: Any) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise Fault(value, expected)

    return check


@_or_null
def _address(value: Any) -> None:
    if not isinstance(value, str) or not value.isprintable():
        raise Fault(value, "an address, a string without control characters")
    try:
        addresses.check(value)
    except ValueError as error:
        raise Fault(value, f"another form: {str(error).removesuffix('.')}") from error


@_or_null
def _count(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise Fault(value, "an integer from 0 to 2**63 - 1")


@_or_null
def _number(value: Any) -> None:
    # No infinity and no NaN either, which JSON does not know.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        raise Fault(value, "a number")


def _flag(value: Any) -> None:
    if not isinstance(value, bool):
        raise Fault(value, "true or false")


def _flag_or_text(value: Any) -> None:
    if not isinstance(value, (bool, str)):
        raise Fault(value, "true, false or a string")


@_or_null
def _count_or_text(value: Any) -> None:
    if not isinstance(value, str):
        _count(value)


def _shallow(value: Any, room: int = DEEPEST) -> None:
    """Free of form, as long as it can be printed."""
    if not isinstance(value, (dict, list, tuple)):
        return
    if room == 0:
        raise Fault(value, f"at most {DEEPEST} levels of lists and objects")
    for item in value.values() if isinstance(value, dict) else value:
        _shallow(item, room - 1)


def _list_of(check: Check) -> Check:
    def check_all(value: Any) -> None:
        if not isinstance(value, (list, tuple)):
            raise Fault(value, "a list")
        for index, item in enumerate(value):
            try:
                check(item)
            except Fault as fault:
                raise fault.below(f"[{index}]") from fault.__cause__

    return check_all


def _values_are(check: Check) -> Check:
    def check_all(value: Any) -> None:
        if not isinstance(value, dict):
            raise Fault(value, "an object")
        for key, item in value.items():
            try:
                check(item)
            except Fault as fault:
                raise fault.below(f".{key}") from fault.__cause__

    return check_all


def _object(known: Mapping[str, Check], required: tuple[str, ...] = ()) -> Check:
    """An object whose known keys have values of their kind, or null; further keys may hold anything shallow."""

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise Fault(value, "an object")
        for key in required:
            if value.get(key) is None:
                raise Fault(value.get(key), "a value").below(f".{key}")
        for key, item in value.items():
            try:
                known.get(key, _shallow)(item)
            except Fault as fault:
                raise fault.below(f".{key}") from fault.__cause__

    return check


def _splits(value: Any) -> None:
    (_values_are(_shallow) if isinstance(value, dict) else _TEXTS)(value)


def _digest_of(length: int) -> Check:
    return _matching(re.compile(rf"[0-9a-f]{{{length}}}"), f"{length} lower-case hexadecimal digits")


_TEXTS, _ADDRESSES = _list_of(_never_null(_text)), _list_of(_never_null(_address))
_DIGESTS = {name: _digest_of(length) for name, length in _DATASET_DIGESTS.items()}
_META = _object(
    {
        "_metrics": _values_are(_values_are(_never_null(_number))),
        "num_params": _count,
        "_file_size": _number,
        "license": _text,
        "citation": _text,
    }
)
_FILE = _object(
    {
        "url": _address,
        "path": _text,
        "size": _count,
        "mirrors": _ADDRESSES,
        "extract": _flag_or_text,
        "contents": _list_of(_object({"path": _text, "size": _count, **_DIGESTS}, ("path",))),
        "splits": _TEXTS,
        **_DIGESTS,
    }
)
_FIELD = _object(
    {
        "key": _text,
        "kind": _text,
        "shape": _or_null(_list_of(_never_null(_count_or_text))),
        "dtype": _text,
        "classes": _count,
        "optional": _flag,
    },
    ("key", "kind"),
)
_GATE = _object(
    {"kind": _matching(re.compile("token|form|manual"), "token, form or manual"), "url": _text, "instructions": _text},
    ("kind",),
)
_REFERENCE: dict[str, Check] = {"docs": _text, "citation": _text, "description": _text}

_CHECKS: dict[str, dict[str, Check]] = {
    "models": {**_REFERENCE, "meta": _META, "head": _TEXTS, "stem": _TEXTS, "tags": _TEXTS},
    "weights": {
        **_REFERENCE,
        "url": _address,
        "sha256": _matching(DIGEST_PATTERN, "8 to 64 hexadecimal digits"),
        "size": _count,
        "mirrors": _ADDRESSES,
        "meta": _META,
        "transforms": _or_null(_object({"target": _text, "params": _values_are(_shallow)}, ("target",))),
        "num_params": _count,
        "aliases": _TEXTS,
    },
    "datasets": {
        **_REFERENCE,
        "meta": _META,
        "splits": _splits,
        "sizes": _values_are(_never_null(_count)),
        "files": _list_of(_FILE),
        "schema": _list_of(_FIELD),
        "gated": _or_null(_GATE),
    },
    "kernels": {
        "namespace": _matching(NAMESPACE_PATTERN, "an identifier"),
        "library": _matching(LIBRARY_PATTERN, "a file name without its suffix"),
        "package": _matching(MODULE_PATTERN, "the dotted name of a package"),
    },
    "predictors": {
        "accepts": _matching(re.compile("file|files|text|environment"), "file, files, text or environment"),
        "environments": _values_are(_never_null(_text)),
    },
}
