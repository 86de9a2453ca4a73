"""Quantized collections: what they become, what is said to them before, and models of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.ao.quantization.observer import PlaceholderObserver

from flambeau.rec.errors import OptionError
from flambeau.rec.inference.modules import (
    BatchingMetadata,
    PredictFactory,
    PredictModule,
    assign_weights_to_tbe,
    get_table_to_weights_from_tbe,
    quantize_dense,
    quantize_embeddings,
    quantize_feature,
    quantize_inference_model,
    set_pruning_data,
    trim_torch_package_prefix_from_typename,
)
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, PoolingType, QuantConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.feature_processor_ import PositionWeightedModuleCollection
from flambeau.rec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from flambeau.rec.quant import embedding_modules as quant
from flambeau.rec.quant.utils import meta_to_cpu_placement, recursive_populate_fx_names
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor
from flambeau.rec.types import DataType

DTYPES = [
    torch.qint8, torch.quint4x2, torch.quint2x4, torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn,
]  # fmt: skip
STEPS = dict(zip(DTYPES, (0.004, 0.05, 0.3, 0.001, 0.005, 1e-6, 0.04), strict=True))


def bags(weighted=False):
    torch.manual_seed(0)
    return EmbeddingBagCollection(
        tables=[
            EmbeddingBagConfig(name="t1", embedding_dim=16, num_embeddings=10, feature_names=["f1", "f3"]),
            EmbeddingBagConfig(
                name="t2", embedding_dim=8, num_embeddings=10, feature_names=["f2"], pooling=PoolingType.MEAN
            ),
        ],
        is_weighted=weighted,
    )


def rows(need_indices=False):
    torch.manual_seed(0)
    return EmbeddingCollection(
        tables=[
            EmbeddingConfig(name="t1", embedding_dim=16, num_embeddings=10, feature_names=["f1", "f3"]),
            EmbeddingConfig(name="t2", embedding_dim=16, num_embeddings=10, feature_names=["f2"]),
        ],
        need_indices=need_indices,
    )


def told(module, dtype=torch.qint8, output=torch.float32, by_table=None):
    module.qconfig = QuantConfig(
        activation=PlaceholderObserver.with_args(dtype=output),
        weight=PlaceholderObserver.with_args(dtype=dtype),
        per_table_weight_dtype=by_table,
    )
    return module


def features(weighted=False):
    return KeyedJaggedTensor(
        keys=["f1", "f2", "f3"],
        values=torch.tensor([1, 2, 3, 4, 5, 9]),
        lengths=torch.tensor([1, 0, 1, 1, 2, 1]),
        weights=torch.tensor([1.0, 2.0, 0.5, 3.0, 1.0, 4.0]) if weighted else None,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_quantized_collection_gives_nearly_what_the_floating_one_does(dtype):
    floating = bags()
    found, expected = quant.EmbeddingBagCollection.from_float(told(floating, dtype))(features()), floating(features())
    for name in expected.keys():  # noqa: SIM118
        assert (found[name] - expected[name]).abs().max() <= STEPS[dtype] * 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantized_rows_are_nearly_the_floating_ones(dtype):
    floating = rows()
    found, expected = quant.EmbeddingCollection.from_float(told(floating, dtype))(features()), floating(features())
    for name, one in expected.items():
        assert (found[name].values() - one.values()).abs().max() <= STEPS[dtype]
        torch.testing.assert_close(found[name].lengths(), one.lengths())


def test_single_tables_may_have_elements_of_their_own():
    made = quant.EmbeddingBagCollection.from_float(told(bags(), torch.qint8, by_table={"t2": torch.float16}))
    assert [one.data_type for one in made.embedding_bag_configs()] == [DataType.INT8, DataType.FP16]
    assert made.state_dict()["embedding_bags.t2.weight"].shape == (10, 16)


def test_the_floating_module_stays_as_it_is():
    floating = told(bags())
    before = {name: value.clone() for name, value in floating.state_dict().items()}
    quant.EmbeddingBagCollection.from_float(floating)(features())
    torch.testing.assert_close(dict(floating.state_dict()), before)


@pytest.mark.parametrize("made", [bags, rows])
@pytest.mark.parametrize("dtype", DTYPES)
def test_training_the_floating_module_on_leaves_the_quantized_one_as_it_was(made, dtype):
    floating = told(made(), dtype)
    packed = (quant.EmbeddingBagCollection if made is bags else quant.EmbeddingCollection).from_float(floating)
    before = {name: value.clone() for name, value in packed.state_dict().items()}
    with torch.no_grad():
        for table in floating.parameters():
            table.fill_(7.0)
    for name, value in packed.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_module_that_was_told_nothing_is_refused():
    with pytest.raises(OptionError, match="EmbeddingBagCollection has no qconfig"):
        quant.EmbeddingBagCollection.from_float(bags())


def test_a_missing_feature_is_named():
    made = quant.EmbeddingBagCollection.from_float(told(bags()))
    with pytest.raises(KeyError, match="f3"):
        made(KeyedJaggedTensor(["f1", "f2"], torch.tensor([1]), lengths=torch.tensor([1, 0])))


def test_pruned_tables_keep_their_first_rows():
    floating = set_pruning_data(bags(), {"t1": 6})
    made = quant.EmbeddingBagCollection.from_float(told(floating, torch.float32))
    assert made.state_dict()["embedding_bags.t1.weight"].shape[0] == 6
    torch.testing.assert_close(made(features())["f1"], floating(features())["f1"])


def test_processed_features_are_weighted_before_they_are_looked_up():
    processor = PositionWeightedModuleCollection({"f1": 5, "f2": 5, "f3": 5})
    with torch.no_grad():
        for weight in processor.parameters():
            weight.copy_(torch.arange(1.0, 6.0))
    floating = FeatureProcessedEmbeddingBagCollection(bags(weighted=True), processor)
    made = quant.FeatureProcessedEmbeddingBagCollection.from_float(told(floating, torch.float32))
    torch.testing.assert_close(made(features()).values(), floating(features()).values())


class _NextId(nn.Module):
    def forward(self, given):
        return KeyedJaggedTensor(given.keys(), (given.values() + 1) % 10, lengths=given.lengths())


def test_ids_are_mapped_before_they_are_looked_up():
    options = {"managed_collision_collection": _NextId(), "return_remapped_features": True}
    plain = quant.EmbeddingBagCollection.from_float(told(bags()))
    weights = _bytes(plain)
    mapped = quant.QuantManagedCollisionEmbeddingBagCollection(
        plain.embedding_bag_configs(), False, torch.device("cpu"), table_name_to_quantized_weights=weights, **options
    )
    found, remapped = mapped(features())
    torch.testing.assert_close(found.values(), plain(_NextId()(features())).values())
    assert remapped.values().tolist() == [2, 3, 4, 5, 6, 0]
    with pytest.raises(OptionError, match="managed_collision_collection is None"):
        quant.QuantManagedCollisionEmbeddingCollection([], torch.device("cpu"))


def _bytes(made):
    return {
        table.name: parts
        for group, tables in zip(made._key_to_tables.values(), made._emb_modules, strict=True)
        for table, parts in zip(group, tables.split_embedding_weights(), strict=True)
    }


class _Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags, self.rows, self.over = bags(), rows(), nn.Linear(40, 1)

    def forward(self, given):
        return self.over(self.bags(given).values())


def test_a_models_collections_are_quantized_and_its_tables_taken_out_and_put_in():
    model = quantize_inference_model(_Model())
    assert isinstance(model.bags, quant.EmbeddingBagCollection) and isinstance(model.rows, quant.EmbeddingCollection)
    expected = model(features())
    held = {
        name: tuple(part.clone() for part in parts) for name, parts in get_table_to_weights_from_tbe(model.bags).items()
    }
    for parts in get_table_to_weights_from_tbe(model.bags).values():
        parts[0].zero_()
    assert not torch.equal(model(features()), expected)
    assign_weights_to_tbe(model.bags, held)
    torch.testing.assert_close(model(features()), expected)
    with pytest.raises(OptionError, match="table_to_weight has no t1"):
        assign_weights_to_tbe(model.bags, {"t2": held["t2"]})


def test_a_copy_is_quantized_unless_the_model_itself_is_to_be():
    model = _Model()
    copied = quantize_embeddings(model, torch.qint8, inplace=False)
    assert type(model.bags) is EmbeddingBagCollection and type(copied.bags) is quant.EmbeddingBagCollection
    assert type(copied.rows) is EmbeddingCollection  # upstream: rows are quantized where that is asked for
    quantize_embeddings(model, torch.qint8, inplace=True, additional_qconfig_spec_keys=[EmbeddingCollection])
    assert type(model.rows) is quant.EmbeddingCollection
    with pytest.raises(KeyError, match="Linear"):
        quantize_embeddings(model, torch.qint8, inplace=True, additional_qconfig_spec_keys=[nn.Linear])


class _Predict(PredictModule):
    def predict_forward(self, batch):
        lengths = batch["ids.lengths"]
        return self.predict_module(KeyedJaggedTensor(["f1", "f2", "f3"], batch["ids.values"], lengths=lengths))


BATCH = {"ids.values": torch.tensor([1, 2, 3]), "ids.lengths": torch.tensor([1, 0, 1, 0, 0, 1])}


def test_a_predict_module_has_the_models_names_and_no_gradients():
    model = _Model()
    wrapped = _Predict(model)
    assert set(wrapped.state_dict()) == set(model.state_dict())
    assert not wrapped(BATCH).requires_grad and wrapped.predict_module is model


def test_all_but_embeddings_computes_in_another_dtype():
    wrapped = quantize_dense(_Predict(_Model()), torch.float16)
    assert wrapped.predict_module.over.weight.dtype == torch.float16
    assert wrapped.predict_module.bags.embedding_bags["t1"].weight.dtype == torch.float32
    given = (torch.ones(1), torch.ones(1, dtype=torch.int64))
    assert [one.dtype for one in quantize_feature(wrapped.predict_module.over, given)] == [torch.float16, torch.int64]
    assert quantize_feature(nn.Linear(1, 1), given) == given


class _Factory(PredictFactory):
    def create_predict_module(self):
        return _Predict(_Model())

    def batching_metadata(self):
        return {"ids": BatchingMetadata("sparse", "cpu", ["ids.values"])}

    def result_metadata(self):
        return "dict_of_tensor"

    def run_weights_independent_tranformations(self, predict_module):
        return predict_module

    def run_weights_dependent_transformations(self, predict_module):
        return predict_module


def test_a_factory_tells_of_its_model_in_json():
    factory = _Factory()
    assert factory.batching_metadata_json() == '{"ids": {"type": "sparse", "device": "cpu", "pinned": ["ids.values"]}}'
    assert factory.qualname_metadata_json() == "{}" and factory.model_inputs_data() == {}
    with pytest.raises(TypeError, match="abstract"):
        PredictFactory()


def test_tables_of_the_meta_device_get_memory():
    with torch.device("meta"):
        floating = EmbeddingBagCollection(tables=bags().embedding_bag_configs(), device=torch.device("meta"))
    model = nn.Sequential(quant.EmbeddingBagCollection.from_float(told(floating)))
    assert model[0].device.type == "meta"
    meta_to_cpu_placement(model)
    assert model[0].device.type == "cpu" and not model[0](features()).values().any()
    recursive_populate_fx_names(model)
    assert [made._fx_path for made in model[0]._emb_modules] == ["emb_module.t1", "emb_module.t2"]


def test_names_of_packaged_types_lose_what_packages_put_in_front():
    assert trim_torch_package_prefix_from_typename("<torch_package_0>.a.B") == "a.B"
    assert trim_torch_package_prefix_from_typename("a.B") == "a.B"
