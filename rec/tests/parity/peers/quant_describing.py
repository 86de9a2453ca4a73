"""Quantized modules of either library: built the same way, and described by what they give."""

from __future__ import annotations

from typing import Any

import torch
from torch.ao.quantization.observer import PlaceholderObserver

from flambeau.core.testing.fill import fill_

DTYPES = {
    "int8": torch.qint8, "int4": torch.quint4x2, "int2": torch.quint2x4, "half": torch.float16, "float": torch.float32,
}  # fmt: skip


def floating(library: Any, kind: str, *, weighted: bool = False, need_indices: bool = False) -> torch.nn.Module:
    """A floating collection: two tables, three features, one of them read by one table, two by the other."""
    configs = library.modules.embedding_configs
    modules = library.modules.embedding_modules
    if kind == "bags":
        pooling = configs.PoolingType
        tables = [
            configs.EmbeddingBagConfig(
                name="t1", embedding_dim=16, num_embeddings=10, feature_names=["f1", "f3"], pooling=pooling.SUM
            ),
            configs.EmbeddingBagConfig(
                name="t2", embedding_dim=8, num_embeddings=12, feature_names=["f2"], pooling=pooling.MEAN
            ),
            configs.EmbeddingBagConfig(
                name="t3", embedding_dim=24, num_embeddings=11, feature_names=["f2"], pooling=pooling.SUM
            ),
        ]
        module = modules.EmbeddingBagCollection(tables=tables, is_weighted=weighted)
    else:
        tables = [
            configs.EmbeddingConfig(name="t1", embedding_dim=16, num_embeddings=10, feature_names=["f1", "f3"]),
            configs.EmbeddingConfig(name="t2", embedding_dim=16, num_embeddings=12, feature_names=["f2"]),
        ]
        module = modules.EmbeddingCollection(tables=tables, need_indices=need_indices)
    return fill_(module) or module


def quantized(
    library: Any, kind: str, dtype: str, output: torch.dtype = torch.float32, prepare: Any = None, **options: Any
) -> torch.nn.Module:
    """A collection quantized from a floating one."""
    module = floating(library, kind, **options)
    target = library.quant.embedding_modules
    if prepare is not None:
        prepare(target, module)
    module.qconfig = library.modules.embedding_configs.QuantConfig(
        activation=PlaceholderObserver.with_args(dtype=output),
        weight=PlaceholderObserver.with_args(dtype=DTYPES[dtype]),
        per_table_weight_dtype=None,
    )
    collection = target.EmbeddingBagCollection if kind == "bags" else target.EmbeddingCollection
    return collection.from_float(module)


def features(library: Any, *, weighted: bool = False, form: str = "plain") -> Any:
    """A batch of four examples."""
    keyed = library.sparse.jagged_tensor.KeyedJaggedTensor
    keys = {"plain": ["f1", "f2", "f3"], "other-order": ["f3", "f1", "f2"], "more": ["f2", "x", "f1", "f3"]}
    chosen = keys.get(form, keys["plain"])
    lengths = torch.tensor([2, 0, 1, 3, 1, 1, 0, 2, 0, 1, 4, 1, 1, 0, 2, 1][: 4 * len(chosen)])
    if form == "empty":
        lengths = lengths * 0
    total = int(lengths.sum())
    values = (torch.arange(total) * 7) % 10
    if form == "int32":
        values, lengths = values.int(), lengths.int()
    return keyed(keys=chosen, values=values, lengths=lengths, weights=torch.arange(total) / 4 if weighted else None)


def results(found: Any) -> Any:
    """What a collection gave, as tensors."""
    if isinstance(found, dict):
        return {name: [one.values(), one.lengths(), one.weights_or_none()] for name, one in sorted(found.items())}
    return [found.keys(), found.length_per_key(), found.values()]
