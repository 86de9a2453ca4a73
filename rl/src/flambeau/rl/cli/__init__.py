"""The command line of reinforcement learning: `flambeau rl`."""
