"""`flambeau serve` and its actions."""
