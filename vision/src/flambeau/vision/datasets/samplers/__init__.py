"""Samplers for datasets of video clips."""

from __future__ import annotations

from flambeau.vision.datasets.samplers.clip_sampler import DistributedSampler, RandomClipSampler, UniformClipSampler

__all__ = ["DistributedSampler", "RandomClipSampler", "UniformClipSampler"]
