"""`flambeau.rec.inference.state_dict_transform` under its older path."""

from flambeau.rec.inference.state_dict_transform import (
    state_dict_all_gather_keys,
    state_dict_gather,
    state_dict_to_device,
)

__all__ = ["state_dict_all_gather_keys", "state_dict_gather", "state_dict_to_device"]
