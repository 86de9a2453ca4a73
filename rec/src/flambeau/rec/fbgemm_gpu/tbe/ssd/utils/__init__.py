"""What tables on disk look like as tensors."""
