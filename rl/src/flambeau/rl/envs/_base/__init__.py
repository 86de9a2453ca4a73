"""The parts of `EnvBase`: its specs, its steps and resets, its rollouts."""
