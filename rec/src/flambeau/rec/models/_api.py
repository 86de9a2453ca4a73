"""The models of rec by name."""

from __future__ import annotations

from flambeau.core.weights import Catalogue

__all__ = ["get_model", "get_model_builder", "list_models", "register_model"]

_catalogue = Catalogue("rec")

register_model = _catalogue.register_model
list_models = _catalogue.list_models
get_model = _catalogue.get_model
get_model_builder = _catalogue.get_model_builder
