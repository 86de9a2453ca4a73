"""A loader for speed: batches as tasks, samples written where they belong, threads or processes, a state."""

from flambeau.data.fast_loader.decoding import ImageDecoder
from flambeau.data.fast_loader.loader import FastLoader

__all__ = ["FastLoader", "ImageDecoder"]
