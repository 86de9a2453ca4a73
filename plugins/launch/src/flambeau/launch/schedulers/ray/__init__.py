"""What runs on a Ray cluster, which needs nothing of this package: the driver of a job, and what it reads."""
