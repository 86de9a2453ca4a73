"""Where columns are made by default.

Upstream kept a tracer here. Frames record what is done to them in any case; see `Column.plan`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from flambeau.data.frame.errors import FrameTypeError


class Scope:
    """Settings of a program; `Scope.default` holds when none is named.

    Args:
        config: settings by name, or the path of a JSON file with them. "device" is "cpu": columns are Arrow memory,
            and tensors go to accelerators.
    """

    default: ClassVar[Scope]
    default_config: ClassVar[dict[str, Any]] = {"device": "cpu", "tracing": False, "types_to_trace": []}

    def __init__(self, config: dict[str, Any] | str | None = None) -> None:
        given: dict[str, Any] | None
        given = json.loads(Path(config).read_text(encoding="utf-8")) if isinstance(config, str) else config
        self.config = {**type(self).default_config, **(given or {})}
        check_device(self.config["device"])

    @property
    def device(self) -> str:
        """Where columns are made."""
        return str(self.config["device"])

    @property
    def tracing(self) -> bool:
        """Whether the program asked to record operations; they always are."""
        return bool(self.config["tracing"])

    def is_same(self, other: Scope) -> bool:
        """Whether another scope is this one."""
        return self is other

    def check_is_same(self, other: Scope) -> None:
        """Refuse another scope.

        Raises:
            TypeError: it is another one.
        """
        self.check_are_same([other])

    def check_are_same(self, others: Iterable[Scope]) -> None:
        """Refuse other scopes.

        Raises:
            TypeError: one of them is another one.
        """
        if not all(self.is_same(other) for other in others):
            raise FrameTypeError("scope and device must be the same; make all columns with one scope.")


def check_device(device: str) -> str:
    """The device that columns are on; "" means the default.

    Raises:
        TypeError: any but "cpu".
    """
    if device not in ("", "cpu"):
        raise FrameTypeError(f"columns cannot be on {device!r}; make them on 'cpu' and move tensors with `.to()`.")
    return "cpu"


Scope.default = Scope()
