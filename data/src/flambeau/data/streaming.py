"""Any data set as a pipeline."""

from __future__ import annotations

from typing import Any

from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.data.datapipes.iter import IterableWrapper
from flambeau.data.datapipes.map import MapDataPipe, SequenceWrapper


def load_dataset(
    name: Any,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    shard: bool = True,
    buffer_size: int = 10_000,
    **config: Any,
) -> IterDataPipe[Any]:
    """Stream a data set that any installed plugin has registered, or one of your own.

    Of a data set with indices only the indices are shuffled and sharded, so that a worker reads its own samples alone,
    the order is uniformly random whatever the size, and a state is a seed and a position. A data set that can only be
    iterated is shuffled in a buffer. Data loaders give every rank and worker its shard.

    Args:
        name: canonical id, or the short name where only one plugin has it; `list_datasets()` lists all. Or a data set
            that is built already, for example a part: `load_dataset(Subset(dataset, indices))` reads only that.
        shuffle: another order in every pass.
        seed: of the first pass's order; the data loader's, or torch's generator, when None.
        shard: let data loaders divide the samples.
        buffer_size: samples in the buffer, for data sets without indices.
        **config: passed on to the data set, usually `root`, `split`, `transform`, `download`.

    Returns:
        A pipe of samples, with a length where the data set has one. Methods of pipes go on from it:
        `load_dataset("vision/cifar10", root="data", shuffle=True).batch(32).collate()`.

    Raises:
        UnknownNameError, AmbiguousNameError, TypeError, DatasetMissingError: as `flambeau.core.datasets.get_dataset`.
        TypeError: `config` for a data set that is built already, or nothing that could be read.
    """
    dataset = _built(name, config)
    if isinstance(dataset, IterDataPipe):
        return _arranged(dataset, shuffle, seed, shard, buffer_size)
    if isinstance(dataset, MapDataPipe) or (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        return _by_index(dataset, shuffle, seed, shard)
    return _arranged(IterableWrapper(dataset, deepcopy=False), shuffle, seed, shard, buffer_size)


def _built(name: Any, config: dict[str, Any]) -> Any:
    from flambeau.core.datasets import get_dataset

    if isinstance(name, str):
        return get_dataset(name, **config)
    if config:
        given = ", ".join(config)
        raise TypeError(f"{type(name).__name__} is built already and takes no {given}; pass a name with them.")
    if not (hasattr(name, "__getitem__") or hasattr(name, "__iter__")):
        raise TypeError(f"expected the name of a data set, or one with [] or iter(); got {type(name).__name__}.")
    return name


def _by_index(dataset: Any, shuffle: bool, seed: int | None, shard: bool) -> IterDataPipe[Any]:
    indices: Any = SequenceWrapper(range(len(dataset)))
    pipe: Any = indices.shuffle() if shuffle else indices.to_iter_datapipe()
    if shuffle and seed is not None:
        pipe.set_seed(seed)
    samples: IterDataPipe[Any] = (pipe.sharding_filter() if shard else pipe).map(_Item(dataset))
    return samples


def _arranged(pipe: Any, shuffle: bool, seed: int | None, shard: bool, buffer_size: int) -> IterDataPipe[Any]:
    if shuffle:
        pipe = pipe.shuffle(buffer_size=buffer_size)
        if seed is not None:
            pipe.set_seed(seed)
    return pipe.sharding_filter() if shard else pipe  # type: ignore[no-any-return]


class _Item:
    """Reads one sample."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __call__(self, index: int) -> Any:
        return self.dataset[index]

    def __deepcopy__(self, memo: dict[int, Any]) -> _Item:
        return self  # loaders copy pipelines, and need no second copy of the data
