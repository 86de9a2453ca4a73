"""What caches of embedding rows are asked."""
