"""TorchServe's archives, read as something that a stranger made."""
