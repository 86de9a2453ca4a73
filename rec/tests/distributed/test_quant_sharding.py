"""Quantized tables over the devices of one process look up what they did whole, however they are spread."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.ao.quantization.observer import PlaceholderObserver

from flambeau.core.testing.fill import fill_
from flambeau.rec.distributed.embedding_sharding import group_tables
from flambeau.rec.distributed.fused_params import (
    FUSED_PARAM_LENGTHS_TO_OFFSETS_LOOKUP,
    FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
    FUSED_PARAM_REGISTER_TBE_BOOL,
)
from flambeau.rec.distributed.infer_utils import (
    get_all_torchrec_modules,
    get_path_device_tuples,
    get_tbe_specs_from_sharded_module,
    get_tbes_from_sharded_module,
)
from flambeau.rec.distributed.planner.types import ParameterConstraints
from flambeau.rec.distributed.quant_embedding import QuantEmbeddingCollectionSharder
from flambeau.rec.distributed.quant_embeddingbag import QuantEmbeddingBagCollectionSharder
from flambeau.rec.distributed.quant_state import get_bucket_offsets_per_virtual_table, sharded_tbes_weights_spec
from flambeau.rec.errors import OptionError
from flambeau.rec.inference.modules import (
    assign_weights_to_tbe,
    get_table_to_weights_from_tbe,
    shard_quant_model,
)
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, PoolingType, QuantConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.quant import embedding_modules as quant
from flambeau.rec.quant.utils import recursive_populate_fx_names
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor
from flambeau.rec.types import DataType

HOW = {"tables": "table_wise", "columns": "column_wise", "rows": "row_wise"}
DTYPES = (torch.qint8, torch.quint4x2, torch.quint2x4, torch.float16, torch.float32)


class Model(nn.Module):
    """A model that is one collection."""

    def __init__(self, kind, dtype=torch.qint8, *, split=True):
        super().__init__()
        shapes = (("a", 10, ["f1", "f3"], PoolingType.SUM), ("b", 13, ["f2"], PoolingType.MEAN))
        if kind == "bags":
            made = EmbeddingBagCollection(
                tables=[
                    EmbeddingBagConfig(
                        name=name, num_embeddings=rows, embedding_dim=16, feature_names=features, pooling=pooling
                    )
                    for name, rows, features, pooling in shapes
                ]
            )
            quantized = quant.EmbeddingBagCollection
        else:
            made = EmbeddingCollection(
                tables=[
                    EmbeddingConfig(name=name, num_embeddings=rows, embedding_dim=16, feature_names=features)
                    for name, rows, features, _ in shapes
                ]
            )
            quantized = quant.EmbeddingCollection
        fill_(made)
        if split:
            quant.quant_prep_enable_quant_state_dict_split_scale_bias(made)
        made.qconfig = QuantConfig(
            activation=PlaceholderObserver.with_args(dtype=torch.float32),
            weight=PlaceholderObserver.with_args(dtype=dtype),
        )
        self.c = quantized.from_float(made)

    def forward(self, features):
        return self.c(features)


def shard(model, how, world=3, **options):
    tables = getattr(model.c, "embedding_bag_configs", None) or model.c.embedding_configs
    constraints = {table.name: ParameterConstraints(sharding_types=[HOW[how]], min_partition=8) for table in tables()}
    made, _ = shard_quant_model(
        model, world_size=world, compute_device="cpu", constraints=constraints,
        **{"sharding_device": "cpu", **options},
    )  # fmt: skip
    return made


def batch(lengths=(2, 0, 1, 3, 1, 1), seed=0):
    total = sum(lengths)
    values = torch.randint(0, 10, (total,), generator=torch.Generator().manual_seed(seed))
    return KeyedJaggedTensor(["f1", "f2", "f3"], values, lengths=torch.tensor(lengths))


def assert_same(found, expected):
    if isinstance(expected, dict):
        assert sorted(found) == sorted(expected)
        for name, rows in expected.items():
            torch.testing.assert_close(found[name].values(), rows.values())
            assert found[name].lengths().tolist() == rows.lengths().tolist()
        return
    assert sorted(found.keys()) == sorted(expected.keys())
    for name in expected.keys():  # noqa: SIM118 - a KeyedTensor is no mapping
        torch.testing.assert_close(found[name], expected[name])


# ----- look-ups -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["bags", "rows"])
def test_sharded_tables_give_what_whole_ones_give(kind, how, dtype):
    model = Model(kind, dtype)
    expected = model(batch())
    assert_same(shard(model, how)(batch()), expected)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 4), min_size=3, max_size=12).filter(lambda found: len(found) % 3 == 0),
    kind=st.sampled_from(["bags", "rows"]),
    how=st.sampled_from(sorted(HOW)),
    world=st.integers(1, 5),
)
def test_any_batch_is_looked_up_alike_on_any_number_of_devices(lengths, kind, how, world):
    model = Model(kind)
    expected = model(batch(tuple(lengths)))
    assert_same(shard(model, how, world)(batch(tuple(lengths))), expected)


def test_means_over_rows_on_several_devices_are_divided_once():
    model = Model("bags")
    expected = model(batch())["f2"]
    torch.testing.assert_close(shard(model, "rows")(batch())["f2"], expected)


@pytest.mark.parametrize("how", HOW)
def test_a_sharded_model_compiles_without_breaks(how):
    torch._dynamo.reset()
    model = shard(Model("bags"), how)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(batch()).values(), model(batch()).values())


def test_kernels_may_be_asked_by_lengths():
    model = Model("bags")
    expected = model(batch())
    options = {FUSED_PARAM_LENGTHS_TO_OFFSETS_LOOKUP: True, FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS: True}
    made = shard(model, "rows", sharders=[QuantEmbeddingBagCollectionSharder(fused_params=options)])
    assert_same(made(batch()), expected)


# ----- state ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["bags", "rows"])
def test_state_dicts_of_whole_and_of_sharded_models_load(kind, how, dtype):
    whole = Model(kind, dtype)
    expected = whole(batch())
    state = {name: value.clone() for name, value in whole.state_dict().items()}
    made, other = shard(whole, how), shard(Model(kind, dtype), how)
    sharded = {name: value for name, value in other.state_dict().items() if ".tbes." not in name}
    for given_state in (state, sharded):
        for tables in get_tbes_from_sharded_module(made.c):
            tables.weights_host.zero_()
        answer = made.load_state_dict(given_state, strict=False)
        assert not answer.unexpected_keys
        assert not [name for name in answer.missing_keys if ".tbes." not in name]
        assert_same(made(batch()), expected)


def test_state_dicts_with_too_few_rows_are_refused():
    whole = Model("bags")
    state = {name: value[:5] for name, value in whole.state_dict().items()}
    with pytest.raises(RuntimeError, match=r"a table of \(5, 16\) is given, expected \(10, 16\)"):
        shard(whole, "rows").load_state_dict(state, strict=False)


def test_tables_with_scales_inside_of_rows_are_taken_over_apart():
    model = Model("bags", split=False)
    expected = model(batch())
    assert_same(shard(model, "tables")(batch()), expected)


def test_tables_are_not_taken_over_on_the_meta_device():
    made = shard(Model("bags"), "tables", sharding_device="meta")
    assert all(tables.weights_host.is_meta for tables in get_tbes_from_sharded_module(made.c))
    assert made(batch()).values().is_meta


def test_weights_are_assigned_to_sharded_kernels_by_table():
    model = Model("bags")
    made = shard(model, "tables")
    weights = {
        name: (torch.full_like(codes, 3), None if scales is None else scales.clone())
        for name, (codes, scales) in get_table_to_weights_from_tbe(made).items()
    }
    assign_weights_to_tbe(made, weights)
    for name, value in made.state_dict().items():
        if name.endswith(".weight"):
            assert value.unique().tolist() == [3]


@pytest.mark.parametrize("how", HOW)
def test_specs_say_where_each_part_is_in_its_table(how):
    whole = Model("bags")
    state = {name: value.clone() for name, value in whole.state_dict().items()}
    made = shard(whole, how)
    specs = sharded_tbes_weights_spec(made)
    for number, tables in enumerate(made.c.tbes):
        views = tables.split_embedding_weights_with_scale_bias(2)
        for at, (table, (codes, _, _)) in enumerate(zip(tables.feature_names, views, strict=True)):
            spec = specs[f"c.tbes.{number}.{at}.{table}.weight"]
            (row, column), (rows, columns) = spec.shard_offsets, spec.shard_sizes
            assert spec.sharding_type == HOW[how]
            assert torch.equal(codes, state[spec.fqn][row : row + rows, column : column + columns])


def test_rows_of_virtual_tables_begin_where_those_of_earlier_devices_end():
    made = shard(Model("bags"), "rows")
    groups = list(made.c.tbes_configs().values())
    assert get_bucket_offsets_per_virtual_table(groups, {"a": [3, 4, 5], "other": [1]}) == {"a": [0, 3, 7]}


# ----- looking into models --------------------------------------------------------------------------------------------


def test_kernels_of_a_sharded_module_are_listed_with_their_tables():
    made = shard(Model("rows"), "rows", world=2)
    assert get_tbe_specs_from_sharded_module(made.c) == [
        ("a", 5, 16, "int8", "EmbeddingLocation.HOST"),
        ("b", 7, 16, "int8", "EmbeddingLocation.HOST"),
        ("a", 5, 16, "int8", "EmbeddingLocation.HOST"),
        ("b", 6, 16, "int8", "EmbeddingLocation.HOST"),
    ]
    assert list(get_all_torchrec_modules(made)) == ["c"]
    assert ("._modules[c]._device", "cpu") in get_path_device_tuples(made)


def test_tables_of_all_elements_share_a_quantized_kernel():
    made = shard(Model("rows"), "tables", world=1)
    (config,) = made.c.tbes_configs().values()
    assert config.data_type is None
    first, second = config.embedding_tables
    second.data_type = DataType.INT4
    assert len(group_tables([[first, second]])[0]) == 1


# ----- faults ---------------------------------------------------------------------------------------------------------


def test_cut_tables_have_their_scales_apart():
    options = {FUSED_PARAM_REGISTER_TBE_BOOL: True}
    with pytest.raises(OptionError, match=r"tables \['a', 'b'\] are cut by rows or columns"):
        shard(Model("rows"), "rows", sharders=[QuantEmbeddingCollectionSharder(fused_params=options)])


def test_a_missing_feature_is_named():
    made = shard(Model("bags"), "rows")
    with pytest.raises(OptionError, match=r"the batch has no features \['f2', 'f3'\]; it has \['f1'\]"):
        made(KeyedJaggedTensor(["f1"], torch.tensor([1]), lengths=torch.tensor([1])))


def test_a_plan_needs_a_device():
    with pytest.raises(OptionError, match="world_size is 0, expected at least one device"):
        shard(Model("bags"), "rows", world=0)


def test_other_modules_have_no_kernels_to_list():
    with pytest.raises(OptionError, match="module is a Linear, expected a ShardedQuantEmbeddingBagCollection"):
        get_tbes_from_sharded_module(nn.Linear(1, 1))


def test_kernels_are_named_by_their_tables_for_programs_that_trace_them():
    made = shard(Model("bags"), "tables", world=1)
    recursive_populate_fx_names(made)
    assert sorted(tables._fx_path for tables in made.c.tbes) == ["emb_module.a", "emb_module.b"]
