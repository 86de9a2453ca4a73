"""Parts of sharded modules that work on their own."""
