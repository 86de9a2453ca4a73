"""Kernels of random numbers and ciphers: native on the CPU, with a plain torch reference of each."""
