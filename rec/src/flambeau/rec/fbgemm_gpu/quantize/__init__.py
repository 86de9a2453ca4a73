"""Quantizers of FBGEMM under their module names."""
