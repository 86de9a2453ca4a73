"""Kernels of reinforcement learning: native on the CPU, with a plain torch reference of each."""
