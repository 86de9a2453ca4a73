"""Losses of language models return what torchrl's do, with the same gradients."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from torch import nn

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import fill_, tensor

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

SUITE = Suite(
    "llm-losses",
    ours="flambeau.rl.objectives.llm",
    peer="torchrl.objectives.llm",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)


def sides(library):
    if library.ours:
        from flambeau.data.tensordict import TensorDict
        from flambeau.rl.modules.distributions import LLMMaskedCategorical
    else:
        from tensordict import TensorDict
        from torchrl.modules.distributions import LLMMaskedCategorical
    return TensorDict, LLMMaskedCategorical


class Model(nn.Module):
    """Distributions of tokens by a table of logits."""

    in_keys = [("tokens", "full")]
    out_keys = [("log_probs", "full")]

    def __init__(self, kind):
        super().__init__()
        self.kind, self.table = kind, fill_(nn.Embedding(7, 7))

    def _get_sft_dist(self, tensordict):
        return self.kind(self.table(tensordict["tokens", "full"]), tensordict["masks", "response"])

    def get_dist(self, tensordict):
        raise AssertionError("torchrl's losses ask whether there is such a method, and do not call it.")

    def _get_rlhf_dist(self, tensordict):
        return self.kind(self.table(tensordict["tokens", "full"]), tensordict["masks", "assistant"])

    def _get_generic_dist(self, tensordict):
        return self.kind(self.table(tensordict["tokens", "full"]), tensordict["masks", "all"])


def batch(TensorDict, rows=2, length=5):
    def masked(name):
        mask = tensor(name, (rows, length)) > -0.6
        mask[:, -1] = True
        return mask

    size = (rows, length)
    return TensorDict(
        {
            "tokens": {"full": (tensor("tokens", size) * 10).long().abs() % 7}, "advantage": tensor("adv", (*size, 1)),
            "log_probs": {"full": tensor("lp", size) - 1}, "next": {"ref_log_probs": {"full": tensor("ref", size) - 1}},
            "masks": {"response": masked("r"), "assistant": masked("a"), "all": masked("m")},
        }, [rows],
    )  # fmt: skip


def trained(name, options, change=lambda data: data):
    def run(library, given):
        TensorDict, kind = sides(library)
        model = Model(kind)
        loss = getattr(library, name)(model, **options)
        found = loss(change(batch(TensorDict)))
        values = {key: getattr(found, key) for key in loss.out_keys}
        total = sum(value.sum() for key, value in values.items() if key.startswith("loss_") and value is not None)
        total.backward()
        return {
            "values": {key: None if value is None else value.detach() for key, value in values.items()},
            "gradient": model.table.weight.grad, "kind": type(found).__name__, "in": sorted(map(str, loss.in_keys)),
            "out": loss.out_keys, "state": sorted(loss.state_dict()), "keys": sorted(vars(loss.tensor_keys).items()),
        }  # fmt: skip

    return run


OPTIONS = {
    "plain": {}, "none": {"reduction": "none"}, "sum": {"reduction": "sum"}, "each-token": {"aggregation": "none"},
    "prompts": {"aggregation": "prompt_mean"}, "aggregation-none": {"aggregation": None},
    "other": {"aggregation": "zz"},
    "no-entropy": {"entropy_bonus": False}, "entropy": {"entropy_coeff": 0.5}, "reference": {"kl_to_ref_coeff": 0.1},
    "inference": {"kl_to_inference_coeff": 0.1}, "both": {"kl_to_ref_coeff": 0.1, "kl_to_inference_coeff": 0.2},
    "filtered": {"kl_mask_threshold": 0.5}, "filtered-much": {"kl_mask_threshold": 0.01}, "one": {"clip_epsilon": 0.3},
    "two": {"clip_epsilon": (0.1, 0.3)}, "low": {"clip_epsilon": (1.0, 0.1)}, "gamma": {"gamma": 0.9},
    "unknown": {"zz": 1},
    "rlhf": {"masking_strategy": "rlhf"}, "generic": {"masking_strategy": "generic"},
    "strategy": {"masking_strategy": "zz"},
    "filtered-all": {"kl_mask_threshold": 0.5, "kl_to_ref_coeff": 0.1, "kl_to_inference_coeff": 0.2},
    "prompts-all": {"aggregation": "prompt_mean", "kl_to_ref_coeff": 0.1, "kl_mask_threshold": 0.5},
    "none-all": {"reduction": "none", "kl_to_ref_coeff": 0.1, "kl_to_inference_coeff": 0.2},
}  # fmt: skip
CHANGES = {
    "no-advantage": lambda td: td.exclude("advantage"), "no-score": lambda td: td.exclude("log_probs"),
    "no-reference": lambda td: td.exclude("next"), "sequences": lambda td: td.set("advantage", tensor("a", (2, 1, 1))),
    "flat": lambda td: td.set("advantage", tensor("a", (2, 5))), "near": lambda td: td.set(
        ("log_probs", "full"), td["log_probs", "full"] * 0.1 - 2),
    "short": lambda td: td.set(("next", "ref_log_probs", "full"), tensor("ref", (2, 4))),
    "wide": lambda td: td.set(("next", "ref_log_probs", "full"), tensor("ref", (2, 5, 1))),
}  # fmt: skip
for _name, (_case, _options) in product(("GRPOLoss", "CISPOLoss", "DAPO"), OPTIONS.items()):
    SUITE.add(Cell(f"options/{_name}/{_case}", "options", trained(_name, _options), effects=False))
for _name, (_case, _change) in product(("GRPOLoss", "CISPOLoss", "DAPO"), CHANGES.items()):
    SUITE.add(Cell(f"data/{_name}/{_case}", "data", trained(_name, {"kl_to_ref_coeff": 0.1}, _change), effects=False))
SUITE.add(Cell("estimate/k3", "estimate",
               lambda library, given: library.k3_kl_token_estimate(tensor("a", (5,)), tensor("b", (5,)))))  # fmt: skip


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
