"""Which kind of actions a loss is about."""

from __future__ import annotations

from typing import Any

from flambeau.rl.data.tensor_specs import Binary, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot

_KINDS = (
    (OneHot, "one_hot"), (MultiOneHot, "mult_one_hot"), (Binary, "binary"), (Categorical, "categorical"),
    (MultiCategorical, "multi_categorical"),
)  # fmt: skip


def action_space_of(given: Any, network: Any, name: str) -> str:
    """The name of a kind of actions: as given, of a spec, or of the network.

    Raises:
        ValueError: there is none, or an unknown one.
    """
    found = given if given is not None else next(filter(None, map(_said_by, network.modules())), None)
    if isinstance(found, str):
        kind: str | None = found.replace("-", "_")
    else:
        kind = kind_of(found)
    known = [each for _, each in _KINDS]
    if kind not in known:
        raise ValueError(f"{name} got actions of {found!r}, by argument or by its network; pass one of {known}.")
    return kind


def action_space_of_actor(given: Any, actor: Any, name: str) -> str:
    """The name of a kind of actions: as given, of a spec, of the actor's spec, or one-hot where nothing says."""
    if given is None:
        given = kind_of(getattr(actor, "spec", None)) or "one_hot"
    return action_space_of(given, actor, name)


def _said_by(module: Any) -> Any:
    return getattr(module, "action_space", None)


def kind_of(spec: Any) -> str | None:
    """The name of the kind of actions that a spec, or the "action" of a composite, describes."""
    if isinstance(spec, Composite):
        leaves = dict(spec.items(True, True))
        spec = next(
            (leaf for key, leaf in leaves.items() if (key if isinstance(key, str) else key[-1]) == "action"), None
        )
    return next((kind for cls, kind in _KINDS if isinstance(spec, cls)), None)
