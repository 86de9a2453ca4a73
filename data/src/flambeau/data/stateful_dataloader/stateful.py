"""The protocol of what has a state."""

from flambeau.data._stateful import Stateful

__all__ = ["Stateful"]
