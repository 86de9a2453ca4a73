"""What FBGEMM keeps beside its kernels for accelerators: names of roundings, and microscaling in plain code."""
