"""What table-batched embeddings are made ready with."""
