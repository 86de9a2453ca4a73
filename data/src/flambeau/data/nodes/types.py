"""The protocol of everything that can be saved and taken up again."""

from flambeau.data._stateful import Stateful

__all__ = ["Stateful"]
