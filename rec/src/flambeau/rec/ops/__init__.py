"""Operators on sparse and jagged data, as `torch.ops.flambeau_rec`."""
