"""What every tensordict is laid out by: keys, indices, defaults, how leaves pair up, print and compare."""
