"""Archives as workers run them."""
