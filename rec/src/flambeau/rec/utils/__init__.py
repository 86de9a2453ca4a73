"""What is noted while programs run: decisions, percentiles, what is experimental."""
