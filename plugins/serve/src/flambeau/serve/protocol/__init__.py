"""What handlers send outside their return value."""
