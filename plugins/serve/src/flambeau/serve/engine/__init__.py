"""Queues, batches, workers and versions: what happens between HTTP and the models. Nothing here imports torch."""
