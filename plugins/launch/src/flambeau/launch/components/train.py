"""Training programs: run yours by `dist.ddp`, which every scheduler understands. Upstream has a module of this name."""
