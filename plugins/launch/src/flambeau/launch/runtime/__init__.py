"""What programs use while they run."""
