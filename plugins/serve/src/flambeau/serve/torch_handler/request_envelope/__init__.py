"""How requests are wrapped: several inputs in one body."""
