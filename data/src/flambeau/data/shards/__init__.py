"""Shards: many samples in one file, written once, read at random or as a stream.

::

    with ShardWriter("train-%06d.tar", maxcount=10_000) as writer:
        writer.write({"__key__": "0001", "jpg": picture, "cls": 3})

    dataset = ShardDataset("train-{000000..000099}.tar", decode=decode)

Tar (webdataset's convention), zip, Parquet, Arrow IPC, TFRecord and MDS are read, here and in object stores.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.data.shards.arrow import *
    from flambeau.data.shards.dataset import *
    from flambeau.data.shards.errors import *
    from flambeau.data.shards.index import *
    from flambeau.data.shards.mds import *
    from flambeau.data.shards.opening import *
    from flambeau.data.shards.shard import *
    from flambeau.data.shards.tar import *
    from flambeau.data.shards.tfrecord import *
    from flambeau.data.shards.writing import *
    from flambeau.data.shards.zip import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "arrow": ("ArrowShard", "ParquetShard"),
        "dataset": ("ShardDataset", "ShardReader"),
        "errors": ("DamagedShardError", "ShardError", "ShardWarning"),
        "index": ("Index", "Member"),
        "mds": ("MDSShard", "mds_shards"),
        "opening": ("open_shard", "open_shards"),
        "shard": ("Shard",),
        "tar": ("TarShard",),
        "tfrecord": ("TFRecordShard",),
        "writing": ("ShardWriter",),
        "zip": ("ZipShard",),
    },
)
