"""Generation beside what the reference computed: `golden/models.json`."""

from __future__ import annotations

import json

import pytest
import torch

from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values
from flambeau.text.models.t5 import GenerationUtilsForT5, T5Conf, T5Model
from flambeau.text.prototype.generate import GenerationUtils


@pytest.fixture(scope="module")
def golden():
    return golden_values("models", __file__)["t5"]


def encoder_tokens():
    tokens = fill.integers("t5_enc", (2, 10), 62) + 2
    for row, length in enumerate((10, 6)):
        tokens[row, length - 1] = 1
        tokens[row, length:] = 0
    return tokens


@pytest.mark.parametrize("name", ["tiny_generation", "tiny_gated_gelu"])
def test_greedy_texts_are_the_references_with_the_cache_and_without(golden, name):
    case = golden[name]
    model = fill.fill_(T5Model(T5Conf(**case["config"]))).eval()
    tokens = encoder_tokens()
    for options, expected in case["generate"].items():
        assert GenerationUtilsForT5(model).generate(tokens, **json.loads(options)).tolist() == expected, options
    forgetful = GenerationUtils(model)
    prepare = model.prepare_inputs_for_generation
    model.prepare_inputs_for_generation = lambda ids, **kwargs: (
        prepare(ids, **kwargs | {"past_key_values": None}) | {"return_past_key_values": False}
    )
    options, expected = next(iter(case["generate"].items()))
    assert forgetful.generate(tokens, **json.loads(options)).tolist() == expected


def test_restrictions_of_scores_are_the_references(golden):
    expected = golden["generation_utils"]
    utils = GenerationUtils(torch.nn.Identity())
    scores = fill.tensor("scores", (2, 6))
    probs = (2 * scores).softmax(-1)
    found = {
        "_get_top_k_restriction(scores,2)": utils._get_top_k_restriction(scores, 2),
        "_get_top_p_restriction(probs,0.5)": utils._get_top_p_restriction(probs, 0.5),
        "_get_top_p_restriction(probs,0.0)": utils._get_top_p_restriction(probs, 0.0),
        "_apply_temperature(probs,0.5)": utils._apply_temperature(probs, 0.5),
    }
    for name, value in found.items():
        assert fill.matches(value, expected[name]) is None, name
    invalid = torch.tensor([torch.nan, torch.inf, 1.0])
    assert utils._remove_invalid_values(invalid).tolist() == expected["_remove_invalid_values([nan, inf, 1])"]
    for call in (
        lambda: utils._get_top_k_restriction(scores, 0),
        lambda: utils._get_top_p_restriction(probs, 1.5),
        lambda: utils._apply_temperature(probs, 0),
        lambda: utils.generate(scores, num_beams=0),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
