"""Keys, values and items of composite specs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.rl.data._specs.composite import Composite

IsLeaf = Callable[[type], bool]


class _View:
    """What a composite holds, read when it is iterated over."""

    def __init__(
        self,
        composite: Composite,
        include_nested: bool,
        leaves_only: bool,
        is_leaf: IsLeaf | None = None,
        step_mdp_static_only: bool = False,
    ) -> None:
        self.composite = composite
        self.include_nested = include_nested
        self.leaves_only = leaves_only
        self.is_leaf = is_leaf
        self.step_mdp_static_only = step_mdp_static_only

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        from flambeau.rl.data._specs.composite import Composite

        for key, spec in self.composite._entries():
            nested = isinstance(spec, Composite)
            if self.step_mdp_static_only and nested and not spec.step_mdp_static:
                pairs = list(_View(spec, True, self.leaves_only, self.is_leaf, True)._pairs())
            elif nested and self.include_nested:
                pairs = list(_View(spec, True, self.leaves_only, self.is_leaf)._pairs())
            else:
                pairs = []
            if self.include_nested and nested:
                for inner, each in pairs:
                    yield (key, *inner) if isinstance(inner, tuple) else (key, inner), each
            leaf = not nested if self.is_leaf is None else spec is None or self.is_leaf(type(spec))
            if leaf or not self.leaves_only:
                yield key, spec

    def __len__(self) -> int:
        return sum(1 for _ in self._pairs())


class _CompositeSpecKeysView(_View):
    """Keys of a composite spec."""

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._pairs())

    def __contains__(self, item: Any) -> bool:
        if isinstance(item, tuple) and len(item) == 1:
            item = item[0]
        return any(key == item for key in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keys={list(self)})"


class _CompositeSpecValuesView(_View):
    """Specs in a composite spec."""

    def __iter__(self) -> Iterator[Any]:
        return (spec for _, spec in self._pairs())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(values={list(self)})"


class _CompositeSpecItemsView(_View):
    """Keys and specs of a composite spec."""

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._pairs()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(items={dict(self._pairs())})"
