"""What stands around tables beside torchrec's: processors of features, towers, regrouping, pools, lazy functions."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from part_of import part_of
from sparse_describing import describe_sparse

from flambeau.core.testing.differential import Cell, Suite, program, read_table
from flambeau.core.testing.fill import fill_, integers, tensor

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "feature_modules",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe_sparse],
)
MODULES = (
    "feature_processor", "feature_processor_", "fp_embedding_modules", "embedding_tower", "regroup", "lazy_extension",
    "debug_embedding_modules", "tensor_pool", "keyed_jagged_tensor_pool", "object_pool_lookups", "embedding_modules",
)  # fmt: skip
LENGTHS = [0, 3, 2, 3, 2, 2, 0, 3, 3, 1, 3, 3]


class Interaction(torch.nn.Module):
    """A layer over pooled embeddings."""

    def __init__(self, columns):
        super().__init__()
        self.layer = torch.nn.Linear(columns, 2)

    def forward(self, pooled):
        return self.layer(pooled.values())


class Both(torch.nn.Module):
    def forward(self, features=None, weighted_features=None):
        return features


class Plain(torch.nn.Module):
    def forward(self, features):
        return features


class Weighted(torch.nn.Module):
    def forward(self, weighted_features):
        return weighted_features


def learn(module, *given):
    """Outputs, the state, and the gradients of a sum."""
    fill_(module)
    output = module(*given)
    tensors = []
    if isinstance(output, torch.Tensor):
        tensors = [output]
    elif isinstance(output, dict):
        tensors = [one.weights() if hasattr(one, "weights") and one.weights_or_none() is not None else one.values()
                   for one in output.values()]  # fmt: skip
    else:
        tensors = [output.weights() if hasattr(output, "weights") else output.values()]
    loss = sum(
        (one * tensor(f"g{at}", tuple(one.shape))).sum() for at, one in enumerate(tensors) if one.is_floating_point()
    )
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.backward()
    gradients = {name: value.grad for name, value in module.named_parameters()}
    return [output, module.state_dict(), gradients, module]


def names(library, given):
    configs = part_of(library, "modules.embedding_configs")
    sparse = part_of(library, "sparse.jagged_tensor")
    modules = {name: part_of(library, f"modules.{name}") for name in MODULES}
    collection = modules["embedding_modules"].EmbeddingBagCollection
    table = configs.EmbeddingBagConfig

    def bags(*features, columns=4, weighted=False):
        return collection([table(10, columns, "t", feature_names=list(features))], is_weighted=weighted)

    return {
        "torch": torch, "copy": copy, "tensor": tensor, "learn": learn, "bags": bags, "table": table,
        "sequence": configs.EmbeddingConfig, "FP16": configs.DataType.FP16, "Interaction": Interaction,
        "Both": Both, "Plain": Plain, "Weighted": Weighted, "KJT": sparse.KeyedJaggedTensor, "KT": sparse.KeyedTensor,
        "JT": sparse.JaggedTensor, **modules, **given,
    }  # fmt: skip


def features(library):
    made = part_of(library, "sparse.jagged_tensor").KeyedJaggedTensor
    count, keys = sum(LENGTHS), ["f1", "f2", "f3"]
    ids, weights = integers("values", (count,), 10), tensor("weights", (count,))
    lengths = torch.tensor(LENGTHS)
    return {
        "plain": made(keys, ids, lengths=lengths),
        "heavy": made(keys, ids.clone(), weights, lengths=lengths),
        "dense": [
            part_of(library, "sparse.jagged_tensor").KeyedTensor(["a", "b"], [2, 3], tensor("d", (4, 5))),
            part_of(library, "sparse.jagged_tensor").KeyedTensor(["c", "d"], [1, 2], tensor("e", (4, 3))),
        ],
    }


TABLE = read_table(Path(__file__).with_name("feature_programs.txt"))
LAZY = (
    "class L(lazy_extension.LazyModuleExtensionMixin, torch.nn.Linear):\n"
    "    cls_to_become = torch.nn.Linear\n"
    "    def __init__(self):\n"
    "        super().__init__(0, 0, bias=False)\n"
    "        self.weight = torch.nn.UninitializedParameter()\n"
    "        self.out_features = 2\n"
    "    def reset_parameters(self):\n"
    "        pass\n"
    "    def initialize_parameters(self, input):\n"
    "        self.in_features = input.shape[-1]\n"
    "        self.weight.materialize((2, self.in_features))\n"
    "        with torch.no_grad(): self.weight.fill_(0.5)\n"
    "m = L()\n"
    "try:\n"
    "    m.apply(lambda part: None)\n"
    "    refused = None\n"
    "except RuntimeError as error:\n"
    "    refused = 'refused'\n"
    "y = m(input=torch.ones(1, 3))\n"
    "[refused, y, m.apply(lambda part: part.weight.data.fill_(1.0)) is m, m.weight, type(m).__name__]"
)


def evaluate(library, given, text):
    return program(text, {})(library, names(library, given))


TABLE["others"].append(LAZY)
for _area, _programs in TABLE.items():
    for _text in _programs:
        SUITE.add(
            Cell(
                f"{_area}/{'a lazy module' if _text == LAZY else _text}",
                _area,
                lambda library, given, text=_text: evaluate(library, given, text),
                features,
                effects=False,
            )
        )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
