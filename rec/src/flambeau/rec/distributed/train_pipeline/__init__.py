"""Training loops that copy, exchange and compute different batches at the same time."""
