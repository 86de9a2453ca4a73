"""Table-batched embeddings: configuration, caches, tables larger than memory, utilities."""
