"""What `LazyStackedTensorDict` is made of: combining, indexing, reading, reducing, shapes."""
