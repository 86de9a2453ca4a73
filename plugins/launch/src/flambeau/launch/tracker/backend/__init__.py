"""Places that trackers write to."""
