"""Public data sets of recommendation, random ones, and what turns rows and columns into batches of sparse features."""
