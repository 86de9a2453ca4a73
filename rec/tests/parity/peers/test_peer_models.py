"""Models begin with torchrec's random numbers, and train as they do there."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
import torch
from part_of import part_of
from sparse_describing import describe_sparse

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import fill_, integers, tensor

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "models",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe_sparse],
    rtol=1e-4,
    atol=1e-5,
)
TABLES = {
    "two": "[T(10, 8, 't1', feature_names=['f1', 'f3']), T(10, 8, 't2', feature_names=['f2'])]",
    "one": "[T(10, 8, 't1', feature_names=['f2'])]",
    "means": "[T(10, 8, 't1', feature_names=['f1'], pooling=MEAN), T(12, 8, 't2', feature_names=['f3'], pooling=MEAN)]",
    "shared": "[T(10, 8, 't1', feature_names=['f1']), T(10, 8, 't2', feature_names=['f1', 'f2'])]",
    "widths": "[T(10, 8, 't1', feature_names=['f1']), T(10, 4, 't2', feature_names=['f2'])]",
    "none": "[]",
}
MODELS = [
    "dlrm.DLRM(ebc, 13, [16, 8], [12, 1])",
    "dlrm.DLRM(ebc, 13, [8], [12, 6, 2])",
    "dlrm.DLRM(ebc, 13, [16, 4], [12, 1])",
    "dlrm.DLRM(ebc, 13, [16, 8], [1])",
    "dlrm.DLRM(ebc, 12, [16, 8], [12, 1])",
    "dlrm.DLRM_DCN(ebc, 13, [16, 8], [12, 1], 2, 4)",
    "dlrm.DLRM_DCN(ebc, 13, [16, 8], [12, 1], 1, 1)",
    "dlrm.DLRM_Projection(ebc, 13, [16, 8], [12, 1], [16, 16], [8, 8])",
    "dlrm.DLRM_Projection(ebc, 13, [16, 8], [12, 1], [16, 15], [8, 8])",
    "dlrm.DLRM_Projection(ebc, 13, [16, 8], [12, 1], [16, 16], [8, 9])",
    "transformer.DLRM_Transformer(ebc, 13, [16, 8], [12, 1], nhead=2, ntransformer_layers=2)",
    "transformer.DLRM_Transformer(ebc, 13, [16, 8], [12, 1], nhead=3)",
    "deepfm.SimpleDeepFMNN(13, ebc, 16, 4)",
    "deepfm.SimpleDeepFMNN(13, ebc, 5, 1)",
]
LENGTHS = [0, 3, 2, 3, 2, 2, 0, 3, 3, 1, 3, 3]


def batch(library):
    made = part_of(library, "sparse.jagged_tensor").KeyedJaggedTensor
    count = sum(LENGTHS)
    ids = made(["f1", "f2", "f3"], integers("values", (count,), 10), lengths=torch.tensor(LENGTHS))
    return {"dense": tensor("dense", (4, 13)), "ids": ids, "labels": torch.tensor([0, 1, 0, 1])}


def names(library, tables="two"):
    configs = part_of(library, "modules.embedding_configs")
    lent = {"T": configs.EmbeddingBagConfig, "MEAN": configs.PoolingType.MEAN}
    collection = part_of(library, "modules.embedding_modules").EmbeddingBagCollection
    return {
        "torch": torch,
        "ebc": collection(eval(TABLES[tables], lent)),
        "dlrm": part_of(library, "models.dlrm"),
        "deepfm": part_of(library, "models.deepfm"),
        "transformer": part_of(library, "models.experimental.transformerdlrm"),
        "crossnet": part_of(library, "modules.crossnet"),
        "tensor": tensor,
    }


def learn(library, given, text, tables, filled, train):
    """What a model begins with, gives, and becomes in some steps of training."""
    model = eval(text, names(library, tables))
    if filled:
        fill_(model)
    begins = {name: value.clone() for name, value in model.state_dict().items()}
    model.train(train)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for _ in range(2):
        optimizer.zero_grad()
        torch.manual_seed(0)  # of dropout
        output = model(given["dense"], given["ids"])
        (output * tensor("g", tuple(output.shape))).sum().backward()
        seen.append([output.detach(), {name: value.grad.clone() for name, value in model.named_parameters()}])
        optimizer.step()
    return {"begins": begins, "seen": seen, "state": model.state_dict(), "is": model}


for _text in MODELS:
    for _tables in TABLES:
        for _filled, _train in ((False, False), (True, False), (True, True)):
            SUITE.add(
                Cell(
                    f"training/{_tables}/{'filled' if _filled else 'drawn'}/{'train' if _train else 'eval'}/{_text}",
                    "training",
                    lambda library, given, text=_text, tables=_tables, filled=_filled, train=_train: learn(
                        library, given, text, tables, filled, train
                    ),
                    batch,
                    effects=False,
                )
            )

PARTS = [
    "dlrm.SparseArch(ebc)(ids)",
    "[dlrm.SparseArch(ebc).F, dlrm.SparseArch(ebc).D, dlrm.SparseArch(ebc).sparse_feature_names]",
    "dlrm.DenseArch(13, [6, 4])(dense)",
    "dlrm.DenseArch(13, [6, 4], device=torch.device('meta'))",
    "dlrm.OverArch(13, [6, 4])(dense)",
    "dlrm.OverArch(13, [6])",
    "dlrm.OverArch(13, [6, 5, 4])",
    "dlrm.InteractionArch(2)(tensor('d', (4, 3)), tensor('s', (4, 2, 3)))",
    "dlrm.InteractionArch(1)(tensor('d', (4, 3)), tensor('s', (4, 1, 3)))",
    "dlrm.InteractionArch(0)(tensor('d', (4, 3)), tensor('s', (4, 0, 3)))",
    "dlrm.InteractionArch(5)(tensor('d', (0, 3)), tensor('s', (0, 5, 3)))",
    "dlrm.InteractionArch(2).state_dict()",
    "dlrm.InteractionArch(3)(tensor('d', (4, 3)), tensor('s', (4, 2, 3)))",
    "dlrm.InteractionDCNArch(2, crossnet.LowRankCrossNet(9, 2, 3))(tensor('d', (4, 3)), tensor('s', (4, 2, 3)))",
    "dlrm.InteractionDCNArch(0, crossnet.LowRankCrossNet(9, 2, 3))(tensor('d', (4, 3)), tensor('s', (4, 0, 3)))",
    "dlrm.InteractionProjectionArch(2, dlrm.DenseArch(9, [6]), dlrm.DenseArch(9, [3]))"
    "(tensor('d', (4, 3)), tensor('s', (4, 2, 3)))",
    "dlrm.InteractionProjectionArch(0, dlrm.DenseArch(9, [6]), dlrm.DenseArch(9, [3]))"
    "(tensor('d', (4, 3)), tensor('s', (4, 0, 3)))",
    "transformer.InteractionTransformerArch(2, 4, 2, 1).eval()(tensor('d', (4, 4)), tensor('s', (4, 2, 4)))",
    "transformer.InteractionTransformerArch(0, 4, 2, 1)(tensor('d', (4, 4)), tensor('s', (4, 0, 4)))",
    "deepfm.DenseArch(13, 6, 4)(dense)",
    "deepfm.OverArch(13)(dense)",
    "deepfm.SparseArch(ebc)(ids)",
    "deepfm.FMInteractionArch(32, ['f1', 'f3', 'f2'], 4)(tensor('d', (4, 8)), deepfm.SparseArch(ebc)(ids))",
    "deepfm.FMInteractionArch(8, [], 4)(tensor('d', (4, 8)), deepfm.SparseArch(ebc)(ids))",
    "dlrm.DLRMTrain(dlrm.DLRM(ebc, 13, [16, 8], [12, 1]))(Batch)",
    "dlrm.DLRMTrain(dlrm.DLRM(ebc, 13, [16, 8], [12, 1])).state_dict()",
    "dlrm.DLRMTrain(dlrm.DLRM(ebc, 13, [16, 8], [12, 2]))(Batch)",
    "dlrm.DLRMWrapper(ebc, 13, [16, 8], [12, 1]).eval()(ModelInput)",
    "dlrm.DLRMWrapper(ebc, 13, [16, 8], [12, 1])(ModelInput)",
    "deepfm.SimpleDeepFMNNWrapper(13, ebc, 16, 4).eval()(ModelInput)",
    "deepfm.SimpleDeepFMNNWrapper(13, ebc, 16, 4)(ModelInput)",
]


def part(library, given, text):
    lent = names(library) | given
    labels = given["labels"]
    lent["Batch"] = types.SimpleNamespace(dense_features=given["dense"], sparse_features=given["ids"], labels=labels)
    lent["ModelInput"] = types.SimpleNamespace(
        float_features=given["dense"], idlist_features=given["ids"], label=labels.float(), idscore_features=None
    )
    return eval(text, lent)


for _text in PARTS:
    SUITE.add(
        Cell(
            f"parts/{_text}",
            "parts",
            lambda library, given, text=_text: part(library, given, text),
            batch,
            effects=False,
        )
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
