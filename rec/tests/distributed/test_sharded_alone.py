"""What is done to a sharded model of one process: tables in smaller elements, rows overwritten, its graph traced."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

from flambeau.rec.distributed import embedding_lookup
from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.sharding_plan import construct_module_sharding_plan, row_wise, table_wise
from flambeau.rec.distributed.types import ShardingPlan
from flambeau.rec.distributed.utils import EmbeddingQuantizationUtils
from flambeau.rec.fx.tracer import Tracer
from flambeau.rec.fx.utils import dmp_fx_trace_forward
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor
from flambeau.rec.types import DataType

FEATURES = KeyedJaggedTensor(["f", "g"], torch.tensor([1, 2, 3, 0, 4]), lengths=torch.tensor([2, 1, 1, 1]))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = EmbeddingBagCollection(
            tables=[
                EmbeddingBagConfig(name=f"of_{name}", num_embeddings=6, embedding_dim=8, feature_names=[name])
                for name in "fg"
            ]
        )
        self.over = nn.Linear(16, 1)

    def forward(self, features):
        return self.over(self.tables(features).values())


@pytest.fixture
def process_group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def model(process_group):
    torch.manual_seed(0)
    whole, sharder = Model(), EmbeddingBagCollectionSharder(fused_params={"learning_rate": 0.1})
    places = {f"of_{name}": table_wise(rank=0, compute_kernel="fused") for name in "fg"}
    plan = construct_module_sharding_plan(
        whole.tables, places, sharder=sharder, local_size=1, world_size=1, device_type="cpu"
    )
    return DistributedModelParallel(
        whole,
        device=torch.device("cpu"),
        plan=ShardingPlan({"tables": plan}),
        sharders=[sharder],
        init_data_parallel=False,
    )


def memory(model):
    (lookup,) = model.module.tables._lookups
    kernels = [one for one in lookup.modules() if hasattr(one, "weights_host")]
    return sum(one.weights_host.untyped_storage().nbytes() for one in kernels)


@pytest.mark.parametrize("kept_by_the_host", [False, True])
@pytest.mark.parametrize(
    ("elements", "close"),
    [(DataType.FP32, 0.0), (DataType.FP16, 1e-3), (DataType.BF16, 1e-2), (DataType.INT8, 1e-2), (DataType.INT4, 0.1)],
    ids=str,
)
def test_tables_come_back_as_they_were_but_for_rounding_and_train_on(model, elements, close, kept_by_the_host):
    before, held = model(FEATURES).detach(), memory(model)
    packer = EmbeddingQuantizationUtils()
    packer.quantize_embedding_modules(model, elements, kept_by_the_host)
    assert memory(model) == 0 < held
    packer.recreate_embedding_modules(model, kept_by_the_host)
    assert memory(model) == held
    after = model(FEATURES)
    torch.testing.assert_close(after.detach(), before, rtol=0, atol=close)
    after.sum().backward()
    assert not torch.equal(model(FEATURES).detach(), after.detach())


def test_tables_without_memory_are_not_looked_up_or_packed_again(model):
    packer = EmbeddingQuantizationUtils()
    packer.recreate_embedding_modules(model)  # nothing to do
    packer.quantize_embedding_modules(model, DataType.FP16)
    with pytest.raises(ValueError, match="call `recreate_embedding_modules` first"):
        model(FEATURES)
    with pytest.raises(ValueError, match="already"):
        packer.quantize_embedding_modules(model, DataType.FP16)
    packer.recreate_embedding_modules(model)
    with pytest.raises(ValueError, match="converted_dtype is"):
        packer.quantize_embedding_modules(model, DataType.INT32)


def test_the_traced_model_computes_what_the_sharded_one_does(model):
    forward = dmp_fx_trace_forward(model, Tracer(leaf_modules=["ShardedEmbeddingBagCollection"]))
    assert torch.equal(forward(FEATURES), model(FEATURES))
    assert [node.op for node in forward.__self__.graph.nodes][:2] == ["placeholder", "call_module"]


def test_a_view_of_two_dimensions_is_one_node_of_a_graph():
    traced = torch.fx.symbolic_trace(lambda x: embedding_lookup.fx_wrap_tensor_view2d(x, 2, 3))
    assert [node.name for node in traced.graph.nodes] == ["x", "fx_wrap_tensor_view2d", "output"]
    assert traced(torch.arange(6)).shape == (2, 3)


def test_rows_that_are_written_are_looked_up_by_the_next_batch(process_group):
    torch.manual_seed(0)
    whole = EmbeddingCollection(
        tables=[
            EmbeddingConfig(name=f"of_{name}", num_embeddings=6, embedding_dim=3, feature_names=[name]) for name in "fg"
        ]
    )
    sharder = EmbeddingCollectionSharder(fused_params={"learning_rate": 0.1})
    places = {f"of_{name}": row_wise(compute_kernel="fused") for name in "fg"}
    plan = construct_module_sharding_plan(whole, places, sharder=sharder, local_size=1, world_size=1, device_type="cpu")
    holder = nn.Module()
    holder.tables = whole
    sharded = DistributedModelParallel(
        holder, device=torch.device("cpu"), plan=ShardingPlan({"tables": plan}), sharders=[sharder],
        init_data_parallel=False,
    ).module.tables  # fmt: skip
    before = {name: found.values().detach() for name, found in sharded(FEATURES).items()}
    rows = torch.arange(9.0).view(3, 3)
    written = KeyedJaggedTensor(
        ["f", "g"], torch.tensor([2, 1, 4]), lengths=torch.tensor([1, 0, 1, 1]), weights=rows
    )  # fmt: skip
    ctx = sharded.create_context()
    sharded.update(ctx, sharded.write_dist(ctx, written).wait().wait())
    after = {name: found.values().detach() for name, found in sharded(FEATURES).items()}
    assert torch.equal(after["f"], torch.stack([before["f"][0], rows[0], before["f"][2]]))  # rows 1, 2 and 3
    assert torch.equal(after["g"], torch.stack([before["g"][0], rows[2]]))  # rows 0 and 4
