"""Weights of the language identifier; they are part of the package and need no network."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum

__all__ = ["Language_Identifier_Weights"]


class Language_Identifier_Weights(WeightsEnum):
    """Weights of `models.language_identifier`."""
