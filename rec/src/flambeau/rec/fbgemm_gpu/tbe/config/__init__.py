"""What table-batched embeddings are configured with."""
