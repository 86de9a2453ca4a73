"""The classes behind `flambeau.rl.data.tensor_specs`: boxes below specs of tensors below specs of collections."""
