"""Programs that explain models: run yours by `utils.python`. Upstream has a module of this name."""
