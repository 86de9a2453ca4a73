"""A component with every kind of argument; its annotations are types, as torchx reads no others."""

from typing import Dict, List, Optional  # noqa: UP035  (as users of torchx write them)


def component(library):
    """The component for one library."""

    def train(
        a: int,
        b: str = "x",
        flag: bool = False,
        lst: Optional[List[str]] = None,  # noqa: UP006, UP045
        d: Optional[Dict[str, str]] = None,  # noqa: UP006, UP045
        *rest: str,
    ):
        """Trains it.

        Args:
            a: the first
        """
        role = library.specs.Role("r", "i", entrypoint="e", args=[repr((a, b, flag, lst, d, rest))])
        return library.specs.AppDef("t", [role])

    return train
