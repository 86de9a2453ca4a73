"""DataLoader with a state, and samplers that have one."""

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.data.stateful_dataloader.sampler import StatefulDistributedSampler as StatefulDistributedSampler
    from flambeau.data.stateful_dataloader.stateful import Stateful as Stateful
    from flambeau.data.stateful_dataloader.stateful_dataloader import StatefulDataLoader as StatefulDataLoader

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "sampler": ("StatefulDistributedSampler",),
        "stateful": ("Stateful",),
        "stateful_dataloader": ("StatefulDataLoader",),
    },
)
