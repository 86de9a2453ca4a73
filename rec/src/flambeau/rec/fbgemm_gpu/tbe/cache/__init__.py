"""Caches of tables that are larger than the memory of a device."""
