"""A quantized model is exported, compiled ahead of time, and answers without the code that it was written in."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from flambeau.rec.distributed.planner.types import ParameterConstraints
from flambeau.rec.errors import OptionError
from flambeau.rec.inference.dlrm_predict import DLRMModelConfig, DLRMPredictFactory, DLRMPredictModule
from flambeau.rec.inference.export import compile_ahead, export_model
from flambeau.rec.inference.modules import (
    assign_weights_to_tbe,
    get_table_to_weights_from_tbe,
    quantize_inference_model,
    shard_quant_model,
)
from flambeau.rec.inference.server import BatchingPredictor, PredictionRequest, SparseFeatures
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection
from flambeau.rec.quant.embedding_modules import quant_prep_enable_quant_state_dict_split_scale_bias_for_types

KEYS = ["user", "item", "shop"]


@pytest.fixture(scope="module")
def predictor():
    torch.manual_seed(0)
    config = DLRMModelConfig([16, 8], 13, 8, KEYS, [100, 50, 20], 0, [16, 1], None)
    made = DLRMPredictFactory(config).create_predict_module()
    weights = {
        name: (torch.randint_like(codes, 0, 256), torch.tensor([[0.01, -1.0]]).half().view(torch.uint8).expand_as(more))
        for name, (codes, more) in get_table_to_weights_from_tbe(made).items()
    }
    assign_weights_to_tbe(made, weights)
    return made


def batch(examples, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 3, (len(KEYS) * examples,), generator=generator)
    return {
        "float_features": torch.randn(examples, 13, generator=generator),
        "id_list_features.lengths": lengths,
        "id_list_features.values": torch.randint(0, 20, (int(lengths.sum()),), generator=generator),
    }


def in_order(features):
    return [features[name] for name in sorted(features)]


@pytest.mark.parametrize("examples", [2, 5, 64])
def test_an_exported_model_takes_batches_of_any_size(predictor, examples):
    program = export_model(predictor, batch(4))
    torch.testing.assert_close(program.module()(*in_order(batch(examples, 1))), predictor(batch(examples, 1)))


def test_a_model_compiles_without_breaks(predictor):
    torch._dynamo.reset()
    compiled = torch.compile(predictor, fullgraph=True, backend="aot_eager", dynamic=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(batch(6)), predictor(batch(6)))


def test_what_a_program_is_given_stays_as_it_is(predictor):
    program = export_model(predictor, batch(4)).module()
    stray = batch(4)
    stray["id_list_features.values"][0] = 10_000
    before = stray["id_list_features.values"].clone()
    program(*in_order(stray))
    torch.testing.assert_close(stray["id_list_features.values"], before)


def test_a_server_answers_by_the_model(predictor):
    kinds = {name: one.type for name, one in {**_metadata()}.items()}
    with BatchingPredictor(predictor, kinds, max_delay_s=0.05) as serving:
        features = batch(3, 2)
        asked = PredictionRequest(
            3,
            {"float_features": features["float_features"]},
            {
                "id_list_features": SparseFeatures(
                    3, features["id_list_features.lengths"], features["id_list_features.values"]
                )
            },
        )
        answers = [serving.submit(asked) for _ in range(4)]
        for answer in answers:
            torch.testing.assert_close(answer.result(60)["default"], predictor(features)["default"])


def _metadata():
    config = DLRMModelConfig([16, 8], 13, 8, KEYS, [100, 50, 20], 0, [16, 1], None)
    return DLRMPredictFactory(config).batching_metadata()


def test_an_example_that_is_too_small_is_refused(predictor):
    with pytest.raises(OptionError, match="float_features with fewer than two entries"):
        export_model(predictor, batch(1))


def test_a_package_has_the_ending_that_it_must_have(predictor, tmp_path):
    with pytest.raises(OptionError, match=r"expected one that ends with '\.pt2'"):
        compile_ahead(export_model(predictor, batch(4)), sorted(batch(4)), tmp_path / "model.so")


def sharded():
    """The same kind of model with a table that is whole, one cut by columns and one cut by rows, on three devices."""
    torch.manual_seed(0)
    collection = EmbeddingBagCollection(
        tables=[
            EmbeddingBagConfig(name=f"t_{name}", embedding_dim=16, num_embeddings=rows, feature_names=[name])
            for name, rows in zip(KEYS, (100, 50, 21), strict=True)
        ]
    )
    model = DLRMPredictModule(collection, 13, [16, 16], [16, 1], KEYS)
    quant_prep_enable_quant_state_dict_split_scale_bias_for_types(model, [EmbeddingBagCollection])
    whole = quantize_inference_model(model)
    expected = whole(batch(7, 3))
    kinds = {"t_user": "row_wise", "t_item": "column_wise", "t_shop": "table_wise"}
    constraints = {name: ParameterConstraints(sharding_types=[kind], min_partition=8) for name, kind in kinds.items()}
    made, _ = shard_quant_model(
        whole, world_size=3, compute_device="cpu", sharding_device="cpu", constraints=constraints
    )
    torch.testing.assert_close(made(batch(7, 3)), expected)
    return made


@pytest.mark.parametrize("examples", [2, 5, 64])
def test_an_exported_sharded_model_takes_batches_of_any_size(examples):
    made = sharded()
    program = export_model(made, batch(4))
    torch.testing.assert_close(program.module()(*in_order(batch(examples, 1))), made(batch(examples, 1)))


def test_a_sharded_predict_module_is_made_for_several_devices():
    config = DLRMModelConfig([16, 8], 13, 8, KEYS, [100, 50, 20], 0, [16, 1], None)
    made = DLRMPredictFactory(config).create_predict_module(world_size=2)
    assert made(batch(5))["default"].shape == (5,)
    assert len(get_table_to_weights_from_tbe(made)) == 3


@pytest.mark.slow
@pytest.mark.timeout(900)  # a compiler of C++ on a busy machine
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch's own compiler
@pytest.mark.parametrize("kind", ["whole", "sharded"])
def test_a_compiled_package_answers_in_a_process_without_the_models_modules(request, kind, tmp_path):
    predictor = sharded() if kind == "sharded" else request.getfixturevalue("predictor")
    names = sorted(batch(4))
    path = compile_ahead(export_model(predictor, batch(4)), names, tmp_path / "model.pt2")
    torch.save({"batch": batch(7, 3), "expected": predictor(batch(7, 3))}, tmp_path / "case.pt")
    code = f"""
import sys, torch
from flambeau.rec.inference.export import load
predict = load({str(path)!r})
case = torch.load({str(tmp_path / "case.pt")!r})
torch.testing.assert_close(predict(case["batch"]), case["expected"])
rooms = tuple("flambeau.rec." + room for room in ("models", "modules", "quant", "fbgemm_gpu", "distributed"))
loaded = [name for name in sys.modules if name.startswith(rooms)]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
