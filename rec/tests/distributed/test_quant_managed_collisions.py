"""Quantized tables whose ids are mapped to rows first, over the devices of one process."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.ao.quantization.observer import PlaceholderObserver

from flambeau.core.testing.fill import fill_
from flambeau.rec.distributed.embedding_lookup import InferGroupedEmbeddingsLookup
from flambeau.rec.distributed.fused_params import (
    FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
    FUSED_PARAM_REGISTER_TBE_BOOL,
)
from flambeau.rec.distributed.mc_modules import ShardedMCCRemapper
from flambeau.rec.distributed.planner.types import ParameterConstraints
from flambeau.rec.distributed.quant_embedding import (
    QuantEmbeddingCollectionSharder,
    QuantManagedCollisionEmbeddingCollectionSharder,
    ShardedMCECLookup,
)
from flambeau.rec.distributed.quant_embeddingbag import (
    QuantEmbeddingBagCollectionSharder,
    QuantManagedCollisionEmbeddingBagCollectionSharder,
)
from flambeau.rec.distributed.quant_state import sharded_tbes_weights_spec
from flambeau.rec.inference.modules import shard_quant_model
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, QuantConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.mc_embedding_modules import (
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from flambeau.rec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    ManagedCollisionCollection,
    MCHManagedCollisionModule,
)
from flambeau.rec.quant import embedding_modules as quant
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

ROWS = {"a": 8, "b": 12}


class Model(nn.Module):
    """A collection with collisions managed, trained on a few batches."""

    def __init__(self, kind):
        super().__init__()
        config = EmbeddingBagConfig if kind == "bags" else EmbeddingConfig
        tables = [
            config(name=name, embedding_dim=16, num_embeddings=rows, feature_names=features)
            for (name, rows), features in zip(ROWS.items(), (["f1", "f3"], ["f2"]), strict=True)
        ]
        collection = (EmbeddingBagCollection if kind == "bags" else EmbeddingCollection)(tables=tables)
        fill_(collection)
        modules = {
            name: MCHManagedCollisionModule(
                zch_size=rows, device=torch.device("cpu"), eviction_interval=1,
                eviction_policy=DistanceLFU_EvictionPolicy(), input_hash_size=100,
            )
            for name, rows in ROWS.items()
        }  # fmt: skip
        mapping = ManagedCollisionCollection(managed_collision_modules=modules, embedding_configs=tables)
        outer = ManagedCollisionEmbeddingBagCollection if kind == "bags" else ManagedCollisionEmbeddingCollection
        made = outer(collection, mapping, return_remapped_features=True)
        for _ in range(2):
            made(batch())
        made.eval()
        quant.quant_prep_enable_quant_state_dict_split_scale_bias(made)
        made.qconfig = QuantConfig(
            activation=PlaceholderObserver.with_args(dtype=torch.float32),
            weight=PlaceholderObserver.with_args(dtype=torch.qint8),
        )
        target = (
            quant.QuantManagedCollisionEmbeddingBagCollection
            if kind == "bags"
            else quant.QuantManagedCollisionEmbeddingCollection
        )
        self.c = target.from_float(made, return_remapped_features=True)

    def forward(self, features):
        return self.c(features)


def batch():
    return KeyedJaggedTensor(
        ["f1", "f2", "f3"], torch.tensor([5, 61, 99, 7, 5, 61, 40, 8]), lengths=torch.tensor([2, 1, 1, 1, 2, 1])
    )


def shard(kind, world):
    options = {FUSED_PARAM_REGISTER_TBE_BOOL: True, FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS: True}
    from flambeau.rec.distributed.mc_modules import InferManagedCollisionCollectionSharder

    if kind == "bags":
        outer, inner = QuantManagedCollisionEmbeddingBagCollectionSharder, QuantEmbeddingBagCollectionSharder
    else:
        outer, inner = QuantManagedCollisionEmbeddingCollectionSharder, QuantEmbeddingCollectionSharder
    sharder = outer(inner(fused_params=options), InferManagedCollisionCollectionSharder())
    constraints = {name: ParameterConstraints(sharding_types=["row_wise"]) for name in ROWS}
    made, _ = shard_quant_model(
        Model(kind), world_size=world, compute_device="cpu", sharding_device="cpu", sharders=[sharder],
        constraints=constraints,
    )  # fmt: skip
    return made


def values(found):
    if isinstance(found, dict):
        return {name: one.values() for name, one in found.items()}
    return {name: found[name] for name in found.keys()}  # noqa: SIM118 - a KeyedTensor is no mapping


@pytest.mark.parametrize("kind", ["bags", "rows"])
def test_one_device_maps_and_looks_up_as_the_whole(kind):
    expected, rows = Model(kind)(batch())
    found, mapped = shard(kind, 1)(batch())
    torch.testing.assert_close(values(found), values(expected))
    assert {key: mapped[key].values().tolist() for key in mapped.keys()} == {  # noqa: SIM118
        key: rows[key].values().tolist()
        for key in rows.keys()  # noqa: SIM118
    }


@pytest.mark.parametrize("kind", ["bags", "rows"])
def test_rows_that_several_devices_map_to_are_looked_up(kind):
    made = shard(kind, 2)
    found, mapped = made(batch())
    model = Model(kind)
    plain = super(type(model.c), model.c).forward(mapped)
    torch.testing.assert_close(values(found), values(plain))


def test_ids_go_to_the_device_of_their_block_and_stay_there():
    made = shard("rows", 2)
    ctx = made.c.create_context()
    (per_device,) = made.c.input_dist(ctx, batch())
    ids = [part.values().tolist() for part in per_device]
    assert all(one < 50 for one in ids[0]) and all(one >= 50 for one in ids[1])
    _, mapped = made(batch())
    rows = mapped["f1"].values().tolist()
    assert rows[0] < 4 <= rows[1]


def test_tables_are_found_where_the_whole_model_has_them():
    specs = sharded_tbes_weights_spec(shard("rows", 2))
    assert specs["c.tbes.1.0.a.weight"].fqn == "c._embedding_module.embeddings.a.weight"
    assert specs["c.tbes.1.0.a.weight"].shard_offsets == [4, 0]


def test_each_device_maps_and_looks_up_by_itself():
    made = shard("rows", 2)
    lookup = made.c._mcec_lookup[0][0]
    assert isinstance(lookup, ShardedMCECLookup) and isinstance(lookup._mcc_remapper, ShardedMCCRemapper)
    assert isinstance(made.c._lookups[0], InferGroupedEmbeddingsLookup)


def test_state_dicts_load():
    made, other = shard("rows", 2), shard("rows", 2)
    answer = made.load_state_dict(other.state_dict())
    assert not answer.missing_keys and not answer.unexpected_keys
