"""Locking a lazy stack: it is locked by itself, or because all its tensordicts are."""

from __future__ import annotations

from typing import Any, Self

from flambeau.data.tensordict._lazy_stack.members import StackMethods


class LazyLocking(StackMethods):
    """`is_locked`, asked of the tensordicts, which others may lock and unlock."""

    @property
    def is_locked(self) -> bool:
        """Whether the stack is locked, or all that it holds; assigning True or False locks and unlocks."""
        return self._is_locked or (bool(self.tensordicts) and all(td.is_locked for td in self.tensordicts))

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    def lock_(self) -> Self:
        """Forbid adding, removing and replacing entries; see `TensorDictBase.lock_`."""
        self._is_locked = self.is_locked
        return super().lock_()

    def unlock_(self) -> Self:
        """Allow changes again, in the tensordicts as well; see `TensorDictBase.unlock_`."""
        self._is_locked = self.is_locked
        return super().unlock_()

    def _locked_alike(self, part: Any) -> Any:
        """A part or another view of this stack; what it holds is locked where the stack is.

        The part itself is not: tensordicts that both have are unlocked together with this stack.
        """
        if self.is_locked:
            for td in getattr(part, "tensordicts", (part,)):
                if not td.is_locked:
                    td._lock_below(None)
        return part
