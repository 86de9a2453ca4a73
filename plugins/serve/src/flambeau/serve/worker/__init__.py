"""The processes that hold models: a parent that has imported torch, and its forked children."""
