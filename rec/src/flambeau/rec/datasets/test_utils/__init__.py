"""Small files in the layout of the data sets, for tests."""
