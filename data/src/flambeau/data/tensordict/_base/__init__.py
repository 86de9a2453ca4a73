"""Functions that make tensordicts: upstream's path of these names."""

from __future__ import annotations

from flambeau.data.tensordict._base.factories import *
