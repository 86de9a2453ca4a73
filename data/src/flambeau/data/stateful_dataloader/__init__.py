"""DataLoader with a state, and samplers that have one."""

from flambeau.data.stateful_dataloader.sampler import StatefulDistributedSampler
from flambeau.data.stateful_dataloader.stateful import Stateful
from flambeau.data.stateful_dataloader.stateful_dataloader import StatefulDataLoader

__all__ = ["Stateful", "StatefulDataLoader", "StatefulDistributedSampler"]
