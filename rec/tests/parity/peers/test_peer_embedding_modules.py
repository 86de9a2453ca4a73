"""Collections of tables begin with torchrec's random numbers, and give its outputs, gradients, states and errors."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from part_of import part_of
from sparse_describing import describe_sparse

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import fill_, integers, tensor

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "embedding_modules",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe_sparse],
)

KEYS = ["f1", "f2", "f3"]
LENGTHS = {
    "plain": [0, 3, 2, 3, 2, 2, 0, 3, 3, 1, 3, 3],
    "single": [1] * 12,
    "no-ids": [0] * 12,
    "one-example": [2, 0, 3],
    "no-examples": [],
}
STRIDES, VARIABLE = [[2], [1], [4]], [2, 1, 0, 3, 1, 2, 1]
INVERSE = [[0, 1, 1, 0], [0, 0, 0, 0], [3, 2, 1, 0]]


def features(library, kind, weighted, whole=torch.int64):
    """Ids of three features: `kind` is one of LENGTHS, or about batches for each key."""
    made = part_of(library, "sparse.jagged_tensor").KeyedJaggedTensor
    variable = kind not in LENGTHS
    lengths = torch.tensor(VARIABLE if variable else LENGTHS[kind], dtype=whole)
    count = int(lengths.sum())
    options = {"stride_per_key_per_rank": STRIDES} if variable else {}
    if kind == "inverse":
        options["inverse_indices"] = (KEYS, torch.tensor(INVERSE))
    if kind == "inverse-in-another-order":
        options["inverse_indices"] = (KEYS[::-1], torch.tensor(INVERSE[::-1]))
    if kind == "equal-batches":
        options["stride_per_key_per_rank"] = [[1, 1], [1, 1], [1, 1]]
        lengths = torch.tensor([2, 0, 1, 3, 0, 2], dtype=whole)
        count = 8
    weights = tensor("weights", (count,)).requires_grad_() if weighted else None
    return made(KEYS, integers("values", (count,), 10).to(whole), weights, lengths=lengths, **options)


BAGS = {
    "two": "[T(10, 4, 't1', feature_names=['f1']), T(10, 8, 't2', feature_names=['f2', 'f3'])]",
    "mean": "[T(10, 4, 't1', feature_names=['f1'], pooling=MEAN), "
    "T(10, 8, 't2', feature_names=['f2', 'f3'], pooling=MEAN)]",
    "mixed": "[T(10, 4, 't1', feature_names=['f1'], pooling=MEAN), T(12, 3, 't2', feature_names=['f3', 'f2'])]",
    "shared": "[T(10, 4, 't1', feature_names=['f1', 'f3']), T(10, 4, 't2', feature_names=['f1', 'f2'])]",
    "order": "[T(10, 8, 'z', feature_names=['f3', 'f1']), T(10, 1, 'a', feature_names=['f2'])]",
    "poolings": "[T(10, 4, 't1', feature_names=['f3'], pooling=MEAN), T(12, 8, 't2', feature_names=['f1', 'f2']), "
    "T(10, 4, 't3', feature_names=['f1'], pooling=MEAN)]",
    "one": "[T(10, 70, 't1', feature_names=['f2'])]",
    "named-as-feature": "[T(10, 4, 'f1'), T(10, 4, 'f2')]",
    "half": "[T(10, 4, 't1', feature_names=['f1'], data_type=FP16)]",
    "bounds": "[T(10, 4, 't1', feature_names=['f1'], weight_init_min=-3.0, weight_init_max=-2.0)]",
    "constant": "[T(10, 4, 't1', feature_names=['f1'], init_fn=torch.nn.init.ones_)]",
    "twice": "[T(10, 4, 't1', feature_names=['f1']), T(10, 4, 't1', feature_names=['f2'])]",
    "missing-feature": "[T(10, 4, 't1', feature_names=['f4'])]",
    "small-table": "[T(3, 4, 't1', feature_names=['f1'])]",
    "no-tables": "[]",
}
ROWS = {
    "two": "[T(10, 4, 't1', feature_names=['f1', 'f3']), T(10, 4, 't2', feature_names=['f2'])]",
    "shared": "[T(10, 4, 't1', feature_names=['f1', 'f3']), T(12, 4, 't2', feature_names=['f1', 'f2'])]",
    "widths": "[T(10, 4, 't1', feature_names=['f1']), T(10, 8, 't2', feature_names=['f2'])]",
    "named-as-feature": "[T(10, 4, 'f1'), T(10, 4, 'f2')]",
    "half": "[T(10, 4, 't1', feature_names=['f1'], data_type=FP16)]",
    "twice": "[T(10, 4, 't1', feature_names=['f1']), T(10, 4, 't1', feature_names=['f2'])]",
    "missing-feature": "[T(10, 4, 't1', feature_names=['f4'])]",
    "small-table": "[T(3, 4, 't1', feature_names=['f1'])]",
    "no-tables": "[]",
}
FAULTY = ("twice", "missing-feature", "small-table", "no-tables", "widths")


def tables(library, text, kind="EmbeddingBagConfig"):
    configs = part_of(library, "modules.embedding_configs")
    names = {"T": getattr(configs, kind), "MEAN": configs.PoolingType.MEAN, "FP16": configs.DataType.FP16}
    return eval(text, names | {"torch": torch})


def record(module, outputs, given):
    """The state, the outputs, and the gradients of a loss over all of them."""
    state = {name: value.clone() for name, value in module.state_dict().items()}
    loss = sum((one * tensor(f"g{at}", tuple(one.shape))).sum() for at, one in enumerate(outputs))
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.backward()
    weights = given["features"].weights_or_none()
    return {
        "state": state,
        "gradients": {name: value.grad for name, value in module.named_parameters()},
        "weights": None if weights is None else weights.grad,
    }


def pooled(library, given, text, weighted, filled):
    made = part_of(library, "modules.embedding_modules").EmbeddingBagCollection(
        tables(library, text), is_weighted=weighted
    )
    if filled:
        fill_(made)
    output = made(given["features"])
    return {"output": output.keys(), "values": output.values().detach(), **record(made, [output.values()], given)}


def rows(library, given, text, need_indices, filled):
    collection = part_of(library, "modules.embedding_modules").EmbeddingCollection
    made = collection(tables(library, text, "EmbeddingConfig"), need_indices=need_indices)
    if filled:
        fill_(made)
    output = made(given["features"])
    plain = {
        name: [part.values().detach(), part.weights_or_none(), part.lengths(), part.offsets().clone()]
        for name, part in output.items()
    }
    return {"output": plain, **record(made, [part.values() for part in output.values()], given)}


for _name, _text in BAGS.items():
    for _kind in (*LENGTHS, "variable", "inverse", "inverse-in-another-order", "equal-batches"):
        for _weighted in (False, True):
            if _name in FAULTY and _kind != "plain":
                continue
            SUITE.add(
                Cell(
                    f"bags/{_name}/{_kind}/{'weighted' if _weighted else 'plain'}",
                    "bags",
                    lambda library, given, text=_text, weighted=_weighted, filled=_kind != "single": pooled(
                        library, given, text, weighted, filled
                    ),
                    lambda library, kind=_kind, weighted=_weighted: {"features": features(library, kind, weighted)},
                    effects=False,
                )
            )
for _name, _text in ROWS.items():
    for _kind in (*LENGTHS, "variable", "inverse", "equal-batches"):
        for _need in (False, True):
            if _name in FAULTY and _kind != "plain":
                continue
            SUITE.add(
                Cell(
                    f"rows/{_name}/{_kind}/{'indices' if _need else 'plain'}",
                    "rows",
                    lambda library, given, text=_text, need=_need, filled=_kind != "single": rows(
                        library, given, text, need, filled
                    ),
                    lambda library, kind=_kind: {"features": features(library, kind, False)},
                    effects=False,
                )
            )
for _whole in (torch.int32, torch.int64):
    SUITE.add(
        Cell(
            f"bags/two/{_whole}/plain",
            "bags",
            lambda library, given: pooled(library, given, BAGS["two"], False, True),
            lambda library, whole=_whole: {"features": features(library, "plain", False, whole)},
            effects=False,
        )
    )

FUSED = {
    "sgd": "torch.optim.SGD, {'lr': 0.1}",
    "adagrad": "torch.optim.Adagrad, {'lr': 0.1, 'eps': 0.01}",
    "rowwise": "RowWiseAdagrad, {'lr': 0.1}",
}


def fused(library, given, text, optimizer, weighted):
    """Three steps: outputs, tables and what the optimizer keeps of them."""
    lent = {"torch": torch, "RowWiseAdagrad": part_of(library, "optim.rowwise_adagrad").RowWiseAdagrad}
    kind, options = eval(optimizer, lent)
    collection = part_of(library, "modules.fused_embedding_modules").FusedEmbeddingBagCollection
    made = collection(tables(library, text), kind, options, is_weighted=weighted)
    made.load_state_dict({name: tensor(name, tuple(value.shape)) for name, value in made.state_dict().items()})
    keeps, seen = made.fused_optimizer(), []
    for step in range(3):
        output = made(given["features"])
        keeps.zero_grad()
        (output.values() * tensor(f"g{step}", tuple(output.values().shape))).sum().backward()
        keeps.step()
        state = {name: value.clone() for name, value in made.state_dict().items()}
        kept = {
            name: {at: one.clone() for at, one in value.items()} for name, value in keeps.state_dict()["state"].items()
        }
        seen.append([output.keys(), output.length_per_key(), output.values().detach().clone(), state, kept])
    names = [name for name, _ in made.named_parameters()]
    return [seen, names, list(keeps.params), made.optimizer_kwargs(), str(made.device), made.is_weighted(), made]


for _name in ("two", "mean", "poolings", "shared", "half"):
    for _optimizer in FUSED:
        for _kind in ("plain", "single", "no-ids", "one-example", "inverse", "equal-batches"):
            for _weighted in (False, True):
                if _weighted and _kind not in ("plain", "single"):
                    continue
                SUITE.add(
                    Cell(
                        f"fused/{_name}/{_kind}/{_optimizer}/{'weighted' if _weighted else 'plain'}",
                        "fused",
                        lambda library, given, text=BAGS[_name], optimizer=FUSED[_optimizer], weighted=_weighted: fused(
                            library, given, text, optimizer, weighted
                        ),
                        lambda library, kind=_kind, weighted=_weighted: {"features": features(library, kind, weighted)},
                        effects=False,
                    )
                )
CONFIGS = [
    "EmbeddingBagConfig(10, 4)",
    "EmbeddingConfig(10, 4, 't', DataType.FP16, ['a', 'b'])",
    "EmbeddingTableConfig(10, 4, 't', embedding_names=['a'])",
    "BaseEmbeddingConfig(10, 4, weight_init_min=-1.0, weight_init_max=2.0)",
    "[EmbeddingConfig(16, 4).get_weight_init_max(), EmbeddingConfig(16, 4, weight_init_min=2.0).get_weight_init_min()]",
    "EmbeddingConfig(16, 4, feature_names=['a', 'b']).num_features()",
    "[data_type_to_dtype(one) for one in DataType]",
    "[str(data_type_to_sparse_type(one)) for one in DataType if 'INT32' not in str(one) and 'INT64' not in str(one)]",
    "data_type_to_sparse_type(DataType.INT32)",
    "data_type_to_sparse_type(DataType.INT64)",
    "[dtype_to_data_type(one) for one in (torch.float32, torch.float16, torch.qint8, torch.quint4x2, torch.int64)]",
    "dtype_to_data_type(torch.float64)",
    "[int(pooling_type_to_pooling_mode(one, two)) for one in PoolingType for two in (None, *ShardingType)]",
    "[pooling_type_to_str(PoolingType.SUM), pooling_type_to_str(PoolingType.MEAN)]",
    "pooling_type_to_str(PoolingType.NONE)",
    "[[str(one), bits] for one, bits in sorted(DATA_TYPE_NUM_BITS.items(), key=str)]",
    "[one.value for one in ShardingType]",
    "FeatureScoreMapping()",
    "QuantConfig(None, None)",
    "[str(one) for one in DataType]",
    *(
        f"{policy}({options})"
        for policy in (
            "VirtualTableEvictionPolicy", "NoEvictionPolicy", "CountBasedEvictionPolicy",
            "TimestampBasedEvictionPolicy", "FeatureScoreBasedEvictionPolicy",
            "CountTimestampMixedEvictionPolicy", "FeatureL2NormBasedEvictionPolicy",
        )
        for options in ("", "16, 8, True")
    ),
    "CountBasedEvictionPolicy(eviction_threshold=3)",
    "TimestampBasedEvictionPolicy(eviction_ttl_mins=7)",
    "FeatureScoreBasedEvictionPolicy(eviction_ttl_mins=5)",
    "CountTimestampMixedEvictionPolicy(eviction_threshold=3, eviction_ttl_mins=4)",
    "FeatureL2NormBasedEvictionPolicy(eviction_threshold=0.5)",
    "(lambda p: [p.init_metaheader_config(DataType.FP16, 8), p.init_metaheader_config(DataType.FP32, 4), p])"
    "(NoEvictionPolicy())",
    "[(lambda p: [p.init_metaheader_config(one, 8), p.get_meta_header_len(), p.get_embedding_dim()])"
    "(NoEvictionPolicy()) for one in DataType]",
    "NoEvictionPolicy().get_meta_header_len()",
]  # fmt: skip
UTILS = [
    "utils.deterministic_dedup(torch.tensor([3, 1, 3, 2, 1]))",
    "utils.deterministic_dedup(torch.tensor([], dtype=torch.int64))",
    "utils.jagged_index_select_with_empty(column, torch.tensor([2, 0]), torch.tensor([2, 5, 9]), torch.tensor([4, 6]))",
    "utils.jagged_index_select_with_empty(column, torch.tensor([1, 1]), torch.tensor([2, 5, 9]), torch.tensor([3, 6]))",
    "utils.jagged_index_select_with_empty(column, torch.tensor([]).long(), torch.tensor([2, 5, 9]), column[:0, 0])",
    "utils.extract_module_or_tensor_callable(lambda: 3)",
    "utils.extract_module_or_tensor_callable(torch.relu)",
    "utils.extract_module_or_tensor_callable(torch.nn.ReLU)",
    "utils.extract_module_or_tensor_callable(torch.nn.ReLU())",
    "utils.convert_list_of_modules_to_modulelist([torch.nn.ReLU()], (2,))",
    "utils.convert_list_of_modules_to_modulelist([torch.nn.ReLU(), torch.nn.Tanh()], (2,))",
    "utils.convert_list_of_modules_to_modulelist([[torch.nn.ReLU()], [torch.nn.Tanh()]], (2, 1))",
    "utils.construct_modulelist_from_single_module(torch.nn.Linear(2, 2), (2, 3))",
    "utils.construct_modulelist_from_single_module(torch.nn.Linear(2, 2), (1,))",
    "utils.get_module_output_dimension(torch.nn.Linear(2, 5), 2)",
    "utils.get_module_output_dimension(torch.relu, 2)",
    "utils.check_module_output_dimension(torch.nn.Linear(2, 5), 2, 5)",
    "utils.check_module_output_dimension(torch.nn.ModuleList([torch.nn.Linear(2, 5), torch.nn.Linear(2, 4)]), 2, 5)",
    "utils.check_module_output_dimension([torch.nn.Linear(2, 5), torch.nn.Linear(2, 5)], 2, 5)",
    "[utils.init_mlp_weights_xavier_uniform(layer), layer.weight, layer.bias]",
    "utils.init_mlp_weights_xavier_uniform(torch.nn.ReLU())",
    *(
        f"utils.construct_jagged_tensors({arguments})"
        for arguments in (
            "rows, keyed, ['f1', 'f2', 'f3']",
            "rows, keyed, ['f1', 'f2', 'f3'], need_indices=True",
            "rows, keyed, ['f1', 'f2', 'f3'], reverse_indices=torch.arange(24, -1, -1)",
            "rows, keyed, ['f1', 'f2', 'f3'], use_gather_select=True, reverse_indices=torch.arange(24, -1, -1)",
            "rows[:5], keyed, ['f1', 'f2', 'f3'], original_features=keyed, reverse_indices=torch.arange(25) % 5",
            "rows[:12], alike, ['f1', 'f1', 'f2', 'f2']",
            "rows[:12], alike, ['f1', 'f1', 'f2', 'f2'], features_to_permute_indices={'f1': [1, 0], 'f9': [0]}",
            "rows[:12], alike, ['f1', 'f2', 'f1', 'f2'], True",
        )
    ),
    *(
        f"utils.construct_jagged_tensors_inference({arguments})"
        for arguments in (
            "rows, keyed.lengths().view(3, -1), keyed.values(), ['f1', 'f2', 'f3']",
            "rows, keyed.lengths().view(3, -1), keyed.values(), ['f1', 'f2', 'f3'], need_indices=True",
            "rows[:5], keyed.lengths().view(3, -1), keyed.values(), ['f1', 'f2', 'f3'], "
            "reverse_indices=torch.arange(25) % 5",
            "longer, keyed.lengths().view(3, -1), keyed.values(), ['f1', 'f2', 'f3'], remove_padding=True",
            "rows[:12], alike.lengths().view(4, -1), alike.values(), ['f1', 'f2', 'f1', 'f2'], True, {'f2': [1, 0]}",
        )
    ),
    "embedding_modules.reorder_inverse_indices(None, ['a'])",
    "embedding_modules.reorder_inverse_indices((['a', 'b'], torch.tensor([[0, 1], [1, 0]])), ['b', 'a', 'b'])",
    "embedding_modules.process_pooled_embeddings([column, column[:2]], torch.tensor([[0, 7, 1], [1, 0, 0]]))",
    "embedding_modules.process_pooled_embeddings([torch.ones(2, 3), torch.ones(2, 1)], torch.empty(0))",
    "embedding_modules.get_embedding_names_by_table(bags)",
    "embedding_modules.EmbeddingBagCollection(bags).embedding_bag_configs()",
    "embedding_modules.EmbeddingBagCollection(bags)",
    "embedding_modules.EmbeddingBagCollection(bags, is_weighted=True).is_weighted()",
    "embedding_modules.EmbeddingBagCollection(bags, device=torch.device('meta'))",
    "embedding_modules.EmbeddingBagCollection(bags, device=torch.device('meta')).device",
    "(lambda m: [m.reset_parameters(), m])(embedding_modules.EmbeddingBagCollection(bags))",
    "copy.deepcopy(embedding_modules.EmbeddingBagCollection(bags))",
    "embedding_modules.EmbeddingCollection(sequences)",
    "embedding_modules.EmbeddingCollection(sequences).embedding_dim()",
    "embedding_modules.EmbeddingCollection(sequences).embedding_names_by_table()",
    "embedding_modules.EmbeddingCollection(sequences, need_indices=True).need_indices()",
    "embedding_modules.EmbeddingCollection(sequences, use_gather_select=True).use_gather_select()",
    "embedding_modules.EmbeddingCollection(sequences).use_gather_select_per_sharding()",
    "embedding_modules.EmbeddingCollection(sequences).embedding_configs()",
    "embedding_modules.EmbeddingCollection(sequences, device=torch.device('meta')).device",
    "embedding_modules.EmbeddingBagCollectionInterface()",
]  # fmt: skip


def _evaluate(library, given, text):
    names = {"torch": torch, "copy": copy, **given}
    if "utils." in text or "embedding_modules." in text:
        names |= {
            "utils": part_of(library, "modules.utils"),
            "embedding_modules": part_of(library, "modules.embedding_modules"),
        }
        names["bags"] = tables(library, BAGS["shared"])
        names["sequences"] = tables(library, ROWS["shared"], "EmbeddingConfig")
    else:
        configs = part_of(library, "modules.embedding_configs")
        names |= {name: getattr(configs, name) for name in dir(configs) if not name.startswith("_")}
    return eval(text, names)


def _arguments(library):
    keyed = part_of(library, "sparse.jagged_tensor").KeyedJaggedTensor
    alike = torch.tensor([2, 1, 2, 1, 2, 1, 2, 1])
    torch.manual_seed(0)
    return {
        "column": torch.arange(10.0).unsqueeze(1),
        "layer": torch.nn.Linear(3, 2),
        "rows": tensor("rows", (25, 2)),
        "longer": tensor("rows", (28, 2)),
        "keyed": features(library, "plain", False),
        "alike": keyed(["a", "b", "c", "d"], torch.arange(12), lengths=alike),
    }


for _text in (*CONFIGS, *UTILS):
    SUITE.add(
        Cell(
            f"{'utils' if _text in UTILS else 'configs'}/{_text}",
            "utils" if _text in UTILS else "configs",
            lambda library, given, text=_text: _evaluate(library, given, text),
            (lambda library: _arguments(library)) if _text in UTILS else (lambda library: {}),
            effects=False,
        )
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
