"""Bundles beside the record of upstream's: `upstream/models.json`."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest
import torch

from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, upstream_facts
from flambeau.core.weights import empty_parameters
from flambeau.text import models
from flambeau.text.models import RobertaBundle, RobertaClassificationHead, RobertaEncoderConf, RobertaModel, T5Bundle
from flambeau.text.weights.files import FILES, asset

NAMES = sorted(
    name for name in models.__all__ if name.startswith(("ROBERTA_", "XLMR_", "T5_", "FLAN_T5_")) and name.isupper()
)


@pytest.fixture(scope="module")
def facts():
    return upstream_facts("models", __file__)


def digest(state) -> str:
    lines = sorted(f"{key} {tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}" for key, value in state)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_there_are_all_bundles(facts):
    assert sorted(facts["bundles"]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_has_the_recorded_sizes_address_and_state(facts, name):
    record, bundle = facts["bundles"][name], getattr(models, name)
    assert type(bundle).__name__ == record["class"]
    conf = bundle.encoderConf if isinstance(bundle, RobertaBundle) else bundle.config
    assert dataclasses.asdict(conf) == record["config"]
    assert bundle._path == record["url"]
    with empty_parameters():
        model = bundle.get_model(load_weights=False)
    assert len(model.state_dict()) == record["entries"]
    assert sum(value.numel() for value in model.parameters()) == record["parameters"]
    assert digest(model.state_dict().items()) == record["state_dict_sha256"]


def test_the_catalogue_has_every_bundles_checkpoint_with_its_licence(facts):
    members = {weights.url: weights for name in models.list_models() for weights in models.get_model_weights(name)}
    for name, record in facts["bundles"].items():
        found = members[record["url"]]
        assert found.license == record["license"], name
        assert (found.meta["recipe"], found.meta["paper"]) == (record["source"], record["paper"]), name
        assert found.meta["num_params"] == record["parameters"], name


def test_vocabulary_files_are_those_on_record(facts):
    for name, file in FILES.items():
        if file.url.startswith("package:"):  # our own
            assert asset(name).stat().st_size == file.size
            continue
        recorded = next(
            (fact for fact in facts["files"].values() if fact["url"].rpartition("/")[2] == name),
            facts["files"].get(name.replace("bert_", "bert_base_")),
        )
        assert file.sha256 == recorded.get("sha256"), name
        assert file.size == recorded.get("size"), name


def test_the_classification_head_has_the_recorded_state(facts):
    record = facts["roberta_classification_head"]
    head = RobertaClassificationHead(record["num_classes"], record["input_dim"])
    assert digest(head.state_dict().items()) == record["state_dict_sha256"]


def test_errors_are_of_the_references_types():
    errors = golden_values("models", __file__)["t5"]["errors"]
    conf = RobertaEncoderConf(50, 16, 32, num_attention_heads=2, num_encoder_layers=1)
    calls = {
        "RobertaBundle without path .get_model()": lambda: RobertaBundle(conf).get_model(),
        "build_model(checkpoint=3)": lambda: RobertaBundle.build_model(conf, checkpoint=3),
        "RobertaModel('x')": lambda: RobertaModel("x"),
    }
    for name, call in calls.items():
        with pytest.raises(Exception) as caught:
            call()
        assert type(caught.value).__name__ == errors[name]
    with pytest.raises(AssertionError):
        T5Bundle(models.T5Conf()).get_model()
    with pytest.raises(TypeError):
        T5Bundle.build_model(models.T5Conf(), checkpoint=3)


def test_a_model_with_other_head_counts_or_without_padding_gives_the_references_features():
    golden = golden_values("models", __file__)["roberta"]
    for name, tokens_name, shape, first, lengths, pad in (
        ("tiny_one_head_pad0", "roberta_tiny3", (2, 9), 3, (9, 5), 0),
        ("tiny_nopad", "roberta_np", (2, 8), 0, (8, 8), 1),
    ):
        case = golden[name]
        tokens = fill.integers(tokens_name, shape, 97) + 3
        tokens[:, 0] = first
        for row, length in enumerate(lengths):
            tokens[row, length - 1] = 2
            tokens[row, length:] = pad
        model = fill.fill_(RobertaModel(RobertaEncoderConf(**case["conf"]))).eval()
        with torch.inference_mode():
            assert fill.matches(model(tokens)[tokens != pad], case["real"]) is None, name
