"""Collections of tables: what they look up, whole programs with them in one graph, and what is refused."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from flambeau.rec import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    KeyedJaggedTensor,
    PoolingType,
)
from flambeau.rec.models.dlrm import DLRM
from flambeau.rec.modules.debug_embedding_modules import DebugEmbeddingBagCollection
from flambeau.rec.modules.fused_embedding_modules import (
    FusedEmbeddingBagCollection,
    FusedEmbeddingCollection,
    fuse_embedding_optimizer,
)
from flambeau.rec.optim import optimizers
from flambeau.rec.optim.rowwise_adagrad import RowWiseAdagrad


def tables(kind=EmbeddingBagConfig, **options):
    return [
        kind(10, 8, "t1", feature_names=["f1", "f3"], **options),
        kind(12, 8, "t2", feature_names=["f2"]),
    ]


def features(seed=0, examples=4, weighted=False):
    torch.manual_seed(seed)
    lengths = torch.randint(0, 4, (3 * examples,))
    count = int(lengths.sum())
    weights = torch.rand(count) if weighted else None
    return KeyedJaggedTensor(["f1", "f2", "f3"], torch.randint(0, 10, (count,)), weights, lengths)


def test_bags_are_those_of_torch():
    collection = EmbeddingBagCollection(tables(pooling=PoolingType.MEAN))
    ids = features()
    pooled = collection(ids)
    for name, bag in {"f1": "t1", "f3": "t1", "f2": "t2"}.items():
        expected = collection.embedding_bags[bag](ids[name].values(), ids[name].offsets())
        torch.testing.assert_close(pooled[name], expected)


def test_a_mean_of_weighted_ids_is_over_their_number():
    table = EmbeddingBagConfig(10, 4, "t", feature_names=["f"], pooling=PoolingType.MEAN)
    collection = EmbeddingBagCollection([table], is_weighted=True)
    ids = KeyedJaggedTensor(["f"], torch.tensor([1, 2]), torch.tensor([0.5, 2.0]), torch.tensor([2, 0]))
    table = collection.embedding_bags["t"].weight
    expected = torch.stack([(0.5 * table[1] + 2.0 * table[2]) / 2, torch.zeros(4)])
    torch.testing.assert_close(collection(ids).values(), expected)


def test_a_batch_for_each_key_becomes_the_full_one_by_inverse_indices():
    collection = EmbeddingBagCollection([EmbeddingBagConfig(10, 4, "t", feature_names=["a", "b"])])
    ids = KeyedJaggedTensor(
        ["a", "b"], torch.tensor([1, 2, 3]), lengths=torch.tensor([1, 1, 1]), stride_per_key_per_rank=[[2], [1]],
        inverse_indices=(["a", "b"], torch.tensor([[1, 0, 1], [0, 0, 0]])),
    )  # fmt: skip
    table = collection.embedding_bags["t"].weight
    torch.testing.assert_close(collection(ids)["a"], table[[2, 1, 2]])
    torch.testing.assert_close(collection(ids)["b"], table[[3, 3, 3]])


def test_batches_of_different_sizes_without_inverse_indices_are_refused():
    collection = EmbeddingBagCollection([EmbeddingBagConfig(10, 4, "t", feature_names=["a", "b"])])
    ids = KeyedJaggedTensor(
        ["a", "b"], torch.tensor([1, 2, 3]), lengths=torch.tensor([1, 1, 1]), stride_per_key_per_rank=[[2], [1]]
    )
    with pytest.raises(ValueError, match=r"\['a', 'b'\] have \[2, 1\] examples and no inverse indices"):
        collection(ids)


@pytest.mark.parametrize("kind", ["bags", "rows"])
def test_tables_of_one_name_are_refused(kind):
    collection = EmbeddingBagCollection if kind == "bags" else EmbeddingCollection
    config = EmbeddingBagConfig if kind == "bags" else EmbeddingConfig
    with pytest.raises(ValueError, match="2 tables are called 't'"):
        collection([config(10, 4, "t", feature_names=[name]) for name in "ab"])


def test_tables_of_different_widths_give_no_rows_together():
    with pytest.raises(ValueError, match=r"theirs are \{'t': 4, 'u': 8\}"):
        EmbeddingCollection([EmbeddingConfig(10, 4, "t"), EmbeddingConfig(10, 8, "u")])


def test_an_id_outside_of_its_table_is_named_with_its_feature():
    collection = EmbeddingBagCollection([EmbeddingBagConfig(3, 4, "t", feature_names=["f"])])
    ids = KeyedJaggedTensor(["f"], torch.tensor([7]), lengths=torch.tensor([1]))
    with pytest.raises(RuntimeError, match="feature 'f' has the id 7, expected 0 to 2"):
        collection(ids)
    with pytest.raises(ValueError, match="the table 't' has 3 rows"):
        DebugEmbeddingBagCollection(collection.embedding_bag_configs(), torch.device("cpu"), debug_mode=True)(ids)


def test_a_collection_of_bags_and_a_model_compile_in_one_graph_for_all_sizes():
    model = DLRM(EmbeddingBagCollection(tables()), 13, [16, 8], [12, 1])
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for examples in (4, 5, 7):
        dense, ids = torch.randn(examples, 13), features(examples, examples)
        torch.testing.assert_close(compiled(dense, ids), model(dense, ids))


def test_gradients_of_a_compiled_collection_are_those_of_the_plain_one():
    plain = EmbeddingBagCollection(tables(), is_weighted=True)
    other = copy.deepcopy(plain)
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    for module in (plain, compiled):
        module(features(weighted=True)).values().square().sum().backward()
    for mine, expected in zip(other.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, expected.grad)


def test_a_collection_of_rows_compiles_in_one_graph():
    collection = EmbeddingCollection(tables(EmbeddingConfig))
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(
            lambda ids: {name: part.values() for name, part in collection(ids).items()},
            fullgraph=True, backend="aot_eager",
        )  # fmt: skip
        for seed in range(3):
            ids = features(seed)
            for name, values in compiled(ids).items():
                torch.testing.assert_close(values, collection(ids)[name].values())


@pytest.mark.parametrize("kind", ["bags", "rows", "dlrm"])
@pytest.mark.parametrize("strict", [False, True])
def test_collections_and_models_are_exported_for_all_numbers_of_ids(kind, strict):
    module = {
        "bags": lambda: EmbeddingBagCollection(tables()),
        "rows": lambda: EmbeddingCollection(tables(EmbeddingConfig)),
        "dlrm": lambda: DLRM(EmbeddingBagCollection(tables()), 13, [16, 8], [12, 1]),
    }[kind]()
    before = (torch.randn(4, 13),) if kind == "dlrm" else ()
    given, other = (*before, features(0)), (*before, features(1))
    auto = torch.export.Dim.AUTO
    ids = given[-1]
    leaves = torch.utils._pytree.tree_flatten(ids)[0]
    spec = [({0: auto} if leaf is ids.values() else None) for leaf in leaves]
    shapes = (*(None for _ in before), spec)
    exported = torch.export.export(module, given, dynamic_shapes=shapes, strict=strict).module()
    for one in (given, other):
        found = torch.utils._pytree.tree_leaves(exported(*one))
        expected = torch.utils._pytree.tree_leaves(module(*one))
        for mine, plain in zip(found, expected, strict=True):
            if isinstance(plain, torch.Tensor):
                torch.testing.assert_close(mine, plain)


OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.Adagrad, {"lr": 0.1}),
    (torch.optim.Adam, {"lr": 0.1, "betas": (0.8, 0.9)}),
    (RowWiseAdagrad, {"lr": 0.1}),
    *(
        (kind, {"lr": 0.1})
        for kind in (
            optimizers.SGD, optimizers.LarsSGD, optimizers.LAMB, optimizers.PartialRowWiseLAMB, optimizers.Adam,
            optimizers.PartialRowWiseAdam, optimizers.Adagrad,
        )
    ),
]  # fmt: skip
NAMES = [f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind, _ in OPTIMIZERS]


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS, ids=NAMES)
def test_a_fused_collection_trains_as_the_optimizer_does_where_every_row_is_looked_up(kind, options):
    ids = KeyedJaggedTensor(["f1", "f2", "f3"], torch.arange(12).repeat(3) % 10, lengths=torch.full((9,), 4))
    config = tables()
    config[1].num_embeddings = 10
    plain = EmbeddingBagCollection(config)
    fused = FusedEmbeddingBagCollection(config, kind, options)
    fused.load_state_dict(plain.state_dict())
    optimizer = kind(plain.parameters(), **(options | ({"eps": 1e-8} if kind is not torch.optim.SGD else {})))
    for step in range(3):
        optimizer.zero_grad()
        for module in (plain, fused):
            torch.manual_seed(step)
            output = module(ids).values()
            (output * torch.randn(output.shape)).sum().backward()
        optimizer.step()
    for mine, expected in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-4)


def test_tables_that_pool_in_different_ways_keep_their_order_in_a_fused_collection():
    config = [
        EmbeddingBagConfig(10, 4, "a", feature_names=["f1"], pooling=PoolingType.MEAN),
        EmbeddingBagConfig(10, 8, "b", feature_names=["f2", "f1"]),
        EmbeddingBagConfig(10, 4, "c", feature_names=["f3"], pooling=PoolingType.MEAN),
    ]
    plain, fused = EmbeddingBagCollection(config), FusedEmbeddingBagCollection(config, torch.optim.SGD, {"lr": 0.1})
    fused.load_state_dict(plain.state_dict())
    assert list(fused.state_dict()) == list(plain.state_dict())
    assert fused(features()).keys() == plain(features()).keys()
    torch.testing.assert_close(fused(features()).values(), plain(features()).values())


def test_rows_of_a_fused_collection_are_trained():
    plain = EmbeddingCollection(tables(EmbeddingConfig))
    fused = FusedEmbeddingCollection(tables(EmbeddingConfig), torch.optim.SGD, {"lr": 0.5}, need_indices=True)
    fused.load_state_dict(plain.state_dict())
    for module in (plain, fused):
        output = module(features())
        sum(part.values().square().sum() for part in output.values()).backward()
    assert torch.equal(output["f2"].weights(), features()["f2"].values())
    for mine, expected in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, expected - 0.5 * expected.grad)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_copy_of_a_fused_collection_trains_the_tables_that_it_shows(again):
    config = [EmbeddingBagConfig(10, 4, "t", feature_names=["f1"], init_fn=torch.nn.init.ones_)]
    made = again(FusedEmbeddingBagCollection(config, torch.optim.SGD, {"lr": 0.5}))
    before = made.embedding_bags["t"].weight.detach().clone()
    ids = KeyedJaggedTensor(["f1"], torch.tensor([3]), lengths=torch.tensor([1]))
    made(ids).values().sum().backward()
    assert torch.equal(before - made.embedding_bags["t"].weight, torch.eye(10)[3].unsqueeze(1).expand(10, 4) * 0.5)


def test_a_model_in_float16_keeps_its_fused_tables_linked():
    made = FusedEmbeddingBagCollection(tables(), torch.optim.SGD, {"lr": 0.5}).half()
    before = made.embedding_bags["t2"].weight.detach().clone()
    made(features()).values().sum().backward()
    assert made.embedding_bags["t2"].weight.dtype == torch.float16
    assert not torch.equal(before, made.embedding_bags["t2"].weight)


def test_fusing_a_model_replaces_its_collections_and_keeps_its_tables():
    model = DLRM(EmbeddingBagCollection(tables()), 13, [16, 8], [12, 1])
    state, dense = {name: value.clone() for name, value in model.state_dict().items()}, torch.randn(4, 13)
    expected = model(dense, features())
    fused = fuse_embedding_optimizer(model, torch.optim.SGD, {"lr": 0.1}, torch.device("cpu"))
    assert fused is model
    assert isinstance(model.sparse_arch.embedding_bag_collection, FusedEmbeddingBagCollection)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    torch.testing.assert_close(model(dense, features()), expected)


def test_an_optimizer_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"optimizer_type is RMSprop, expected one of .*RowWiseAdagrad"):
        FusedEmbeddingBagCollection(tables(), torch.optim.RMSprop, {"lr": 0.1})


def test_the_learning_rate_of_a_fused_optimizer_can_be_changed():
    made = FusedEmbeddingBagCollection(tables(), torch.optim.Adagrad, {"lr": 0.5})
    optimizer = made.fused_optimizer()
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    before = {name: value.clone() for name, value in made.state_dict().items()}
    made(features()).values().sum().backward()
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())


def test_the_state_of_a_fused_optimizer_can_be_loaded():
    made, other = (FusedEmbeddingBagCollection(tables(), torch.optim.Adagrad, {"lr": 0.5}) for _ in range(2))
    made(features()).values().sum().backward()
    other.fused_optimizer().load_state_dict(made.fused_optimizer().state_dict())
    kept = other.fused_optimizer().state_dict()["state"]
    assert kept["t1.weight"]["t1.weight.momentum_1"].any()
    assert torch.equal(
        kept["t1.weight"]["t1.weight.momentum_1"],
        made.fused_optimizer().state_dict()["state"]["t1.weight"]["t1.weight.momentum_1"],
    )
