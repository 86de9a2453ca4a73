"""Embedding tables larger than one process: sharding, communication, planning and pipelines."""
