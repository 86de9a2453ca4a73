"""Python values as entries: one for all positions of a batch, or one each."""
