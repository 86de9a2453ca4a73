"""Names in arguments that only the scheduler can fill in."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass
from string import Template
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.launch.specs.apps import Role

__all__ = ["literal", "macros"]


class macros:
    """What may stand in `args`, `env` and `metadata` of a role until it is scheduled.

    Attributes:
        img_root: root folder of the image.
        base_img_root: root folder of the base image.
        app_id: the application's id at its scheduler.
        replica_id: number of the replica in its role, from 0.
        rank0_env: name of the environment variable that holds the host of replica 0.
    """

    img_root = "${img_root}"
    base_img_root = "${base_img_root}"
    app_id = "${app_id}"
    replica_id = "${replica_id}"
    rank0_env = "${rank0_env}"

    @dataclass
    class Values:
        """What the macros of one replica become."""

        img_root: str
        app_id: str
        replica_id: str
        rank0_env: str
        base_img_root: str = ""

        def apply(self, role: Role) -> Role:
            """A copy of the role with everything filled in."""
            role = copy.deepcopy(role)
            role.args = [self.substitute(arg) for arg in role.args]
            role.env = {name: self.substitute(value) for name, value in role.env.items()}
            role.metadata = _map_text(role.metadata, self.substitute)
            return role

        def substitute(self, arg: str) -> str:
            """Fill in a text; `$$` becomes `$`, and names that are no macros stay."""
            return Template(arg).safe_substitute(**asdict(self))


def literal(word: str) -> str:
    """A word of a command line as roles have it: two dollars stay two, and macros are macros.

    Example:
        >>> macros.Values("", "job-1", "0", "").substitute(literal("pid $$ of ${app_id}"))
        'pid $$ of job-1'
    """
    return word.replace("$$", "$$$$")


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    """Texts in lists and dictionaries changed, everything else as it is."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_text(item, change) for item in value]
    return value
