"""Models ready to serve: quantized, sharded, packaged, and answered for in batches."""
