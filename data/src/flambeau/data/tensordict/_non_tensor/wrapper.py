"""What `NonTensorData` and `NonTensorStack` have in common: entries that hold Python values, and no tensors.

They have a batch size, take part in every shape operation, and are left alone by arithmetic. A change of them is
written to where they are saved, if they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

from torch import Tensor

from flambeau.data.tensordict._tensorclass.base import TensorClass


class NonTensorWrapper(TensorClass):
    """A wrapper of one or more Python values, as an entry of a tensordict."""

    _is_template = True
    _is_non_tensor: ClassVar[bool] = True
    _saved: Any = None  # a memmap.saved.Saved, where the values are saved in a folder that follows their changes
    _is_memmap: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        cls._is_template = True  # no fields to make of annotations
        super().__init_subclass__(**kwargs)

    # --- the values

    if TYPE_CHECKING:  # what the two classes bring

        def _with_item(self, index: Any, value: Any) -> Any:
            """What this becomes when positions are given another value."""

        def _take_over(self, source: Any) -> None:
            """Take the value or values of what `update` was given."""

        def clone(self, recurse: bool = True, **kwargs: Any) -> Any:
            """Another wrapper of the same values."""

    def _replaced_by(self, other: Any) -> Any:
        """The wrapper to put in place of this one: `other`, or a copy of it that is saved where this one is."""
        if self._saved is None or other is self:
            return other
        write_to(self._saved, other)
        other = other.clone()
        other.__dict__["_saved"] = self._saved
        return other

    def update(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Any = None,
        is_leaf: Any = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Take over what another wrapper holds, or one value."""
        if input_dict_or_td is not None:
            self._take_over(input_dict_or_td)
        return self

    def update_(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Any = None,
        **kwargs: Any,
    ) -> Self:
        """As `update`."""
        return self.update(input_dict_or_td)

    def update_at_(self, input_dict_or_td: Any, index: Any, clone: bool = False, *, non_blocking: bool = False) -> Any:
        """What this becomes when the positions of an index get another value; see `maybe_to_stack`."""
        return self._with_item(index, input_dict_or_td)

    # --- copies

    def copy(self) -> Any:
        """Another wrapper of the same values."""
        return self.clone()

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """A copy of the wrapper."""
        return self.clone()

    # --- there are no tensors

    def is_empty(self) -> bool:
        """Never: there is a value."""
        return False

    def is_shared(self) -> bool:
        """Always False: values are not in shared memory."""
        return False

    def is_memmap(self) -> bool:
        """Whether it is part of a memory-mapped collection."""
        return self._is_memmap and self.is_locked

    def share_memory_(self) -> Self:
        """Nothing to share."""
        return self

    def _apply_nest(self, call: Any, others: Any, prefix: tuple[str, ...] = ()) -> Self:
        return self

    def _collect(self, leaves: list[Any]) -> None:
        """There are no tensors."""

    def _rebuild(self, leaves: Any, device: Any = None) -> Self:
        return self

    # --- comparing

    def __ne__(self, other: object) -> Any:
        return ~(self == other)

    def _compare(self, other: Any, compare: Callable[[Any, Any], Any]) -> Tensor:
        """Where the values equal those of another wrapper, or where they do not.

        Raises:
            TypeError: another comparison; values of whatever type have no order.
        """
        if compare not in (operator.eq, operator.ne):
            raise TypeError(f"non-tensor data can be compared with == and != alone, not with {compare.__name__}.")
        equal: Tensor = self == other
        return equal if compare is operator.eq else ~equal

    __hash__ = object.__hash__


def write_to(place: Any, wrapper: Any) -> None:
    """Write a wrapper's value where it is saved."""
    from flambeau.data.tensordict.memmap.saved import write_value

    write_value(place, wrapper)


def _add_order(cls: type) -> None:
    """Let `<` and its relatives raise: values of whatever type have no order, and an empty tensordict would say yes."""
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        setattr(cls, f"__{compare.__name__}__", lambda self, other, compare=compare: self._compare(other, compare))


_add_order(NonTensorWrapper)
