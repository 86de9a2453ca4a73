"""Whether what is called today can still be called tomorrow."""
