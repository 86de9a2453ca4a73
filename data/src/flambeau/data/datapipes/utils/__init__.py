"""What pipes share: streams that close with their archive, drawing pipelines, pinning memory, decoders by ending."""

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "drawing": ("to_graph",),
        "pinning": ("pin_memory_fn",),
        "flambeau.data.dataloader2.sharing": ("shard_worker",),
        "streams": ("StreamWrapper", "janitor"),
    },
    submodules=("common", "decoder"),
)
