"""Lists over the batch of a collection that write to it."""

from __future__ import annotations

from typing import Any


class LinkedList(list[Any]):
    """What a collection holds along its first dimension, as a list; assigning to an item writes to the collection.

    Of a `NonTensorStack`, the lists inside do so as well.

    Args:
        args: of `list`.
        td: the collection.
    """

    def __init__(self, *args: Any, td: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._td = td
        self._at: tuple[int, ...] = ()
        for index, item in enumerate(self):
            if type(item) is list and td.ndim > 1 and td._is_non_tensor:
                super().__setitem__(index, _below(item, td, (index,)))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        self._td[(*self._at, index)] = value

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "the list shows what a collection holds, whose length is that of the batch; assign items, or work on "
            "list(values)."
        )

    append = extend = insert = pop = remove = clear = __delitem__ = __iadd__ = __imul__ = sort = reverse = _refuse

    def __reduce__(self) -> Any:
        return list, (list(self),)


def _below(items: list[Any], td: Any, at: tuple[int, ...]) -> LinkedList:
    made = LinkedList.__new__(LinkedList)
    list.__init__(made, items)
    made._td, made._at = td, at
    if td.ndim > len(at) + 1:
        for index, item in enumerate(items):
            list.__setitem__(made, index, _below(item, td, (*at, index)))
    return made
