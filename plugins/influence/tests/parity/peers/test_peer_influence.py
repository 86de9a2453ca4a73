"""Scores, orders and results are captum's, for every method, kind of model, loss and form of arguments."""

from __future__ import annotations

import tempfile
import warnings
from itertools import product
from pathlib import Path

import pytest
import torch
from subjects import LOSSES, Subject

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("captum", reason="needs captum; `nox -s parity -- peers influence` has it")

SUITE = Suite(
    "influence",
    ours="flambeau.influence",
    peer="captum.influence",
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-6,
)
# Eigenvectors of eigenvalues near the bound are known less exactly.
FUNCTIONS_SUITE = Suite(
    "functions",
    ours="flambeau.influence",
    peer="captum.influence",
    differences=Path(__file__).with_name("differences.toml"),
    rtol=2e-3,
    atol=2e-4,
)


def quiet(call):
    """captum warns of losses whose reduction it has to guess."""

    def called(library, given):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(library, given)

    return called


def add(name, area, call, suite=SUITE):
    suite.add(Cell(name, area, quiet(call), effects=False, printed=False))


# What is asked of an object of a method, by programs: `i` is it, `s` the subject.
QUESTIONS = {
    "all": "i.influence(s.inputs)",
    "k3": "i.influence(s.inputs, k=3)",
    "k11": "i.influence(s.inputs, k=11)",
    "opponents": "i.influence(s.inputs, k=3, proponents=False)",
    "self": "i.self_influence()",
    "self-test": "i.self_influence(s.inputs)",
    "self-loader": "i.self_influence(s.test_loader())",
}
TRACIN = {
    **QUESTIONS,
    "loader": "i.influence(s.test_loader())",
    "loader-k2": "i.influence(s.test_loader(), k=2)",
    "aggregate": "i.influence(s.inputs, aggregate=True)",
    "aggregate-loader": "i.influence(s.test_loader(), aggregate=True)",
    "aggregate-k": "i.influence(s.inputs, k=2, aggregate=True)",
    "outer": "i.self_influence(outer_loop_by_checkpoints=True)",
    "quantities": "i.compute_intermediate_quantities(s.inputs)",
    "quantities-sum": "i.compute_intermediate_quantities(s.test_loader(), aggregate=True)",
}
FAST = {
    **QUESTIONS,
    "loader": "i.influence(s.test_loader())",
    "outer": "i.self_influence(outer_loop_by_checkpoints=True)",
}
STORED = {
    "all": "i.influence(s.inputs, k=None)",
    "quantities": "i.compute_intermediate_quantities(s.inputs)",
    "quantities-loader": "i.compute_intermediate_quantities(s.test_loader())",
    "self": "i.self_influence()",
}
FUNCTIONS = {**QUESTIONS, "loader": "i.influence(s.test_loader())"}


def ask(make, question, kind):
    def call(library, given):
        subject = Subject(kind)
        return eval(question, {"i": make(library, subject), "s": subject})

    return call


for kind, (loss, each), data in product(
    ("net", "conv", "scored"),
    (("none", False), ("function", False), ("sum", True), ("mean", True), ("summed", True), ("nothing", False)),
    ("dataset", "loader"),
):
    if (kind == "scored") != (loss == "nothing"):
        continue

    def tracin(library, subject, loss=loss, each=each, data=data):
        return library.TracInCP(
            subject.model, subject.train if data == "dataset" else subject.loader(), iter(range(3)), subject.load,
            loss_fn=LOSSES[loss](), batch_size=4, sample_wise_grads_per_batch=each,
        )  # fmt: skip

    for name, question in TRACIN.items():
        add(f"tracin/{kind}/{loss}/{data}/{name}", "TracInCP", ask(tracin, question, kind))

for kind, loss, vectorize in product(("net", "conv"), ("sum", "mean", "summed"), (False, True)):

    def fast(library, subject, loss=loss, vectorize=vectorize, by_name=True):
        return library.TracInCPFast(
            subject.model, subject.last if by_name else getattr(subject.model, subject.last), subject.train,
            iter(range(3)), subject.load, loss_fn=LOSSES[loss](), batch_size=4, vectorize=vectorize,
        )  # fmt: skip

    for name, question in FAST.items():
        add(f"fast/{kind}/{loss}/{vectorize}/{name}", "TracInCPFast", ask(fast, question, kind))


class Exact:
    """Search by every scalar product, for both libraries."""

    def setup(self, data):
        self.data = data

    def get_nearest_neighbors(self, query, k):
        found = torch.topk(query @ self.data.T, k, dim=1)
        return found.indices, found.values


for kind, dim, seed in product(("net", "conv"), (None, 9, 30), (0, 3)):

    def stored(library, subject, dim=dim, seed=seed):
        return library.TracInCPFastRandProj(
            subject.model, getattr(subject.model, subject.last), subject.train, iter(range(3)), subject.load,
            loss_fn=LOSSES["sum"](), batch_size=4, projection_dim=dim, seed=seed, nearest_neighbors=Exact(),
        )  # fmt: skip

    for name, question in {**STORED, "k3": QUESTIONS["k3"], "opponents": QUESTIONS["opponents"]}.items():
        add(f"stored/{kind}/{dim}/{seed}/{name}", "TracInCPFastRandProj", ask(stored, question, kind))

for kind, (loss, each), dim in product(("net", "conv"), (("none", False), ("sum", True), ("mean", True)), (200, 5)):

    def naive(library, subject, loss=loss, each=each, dim=dim):
        torch.save(subject.states[0], library.folder / "model.pt")
        return library.NaiveInfluenceFunction(
            subject.model, subject.train, str(library.folder / "model.pt"), layers=[subject.last],
            loss_fn=LOSSES[loss](), batch_size=4, sample_wise_grads_per_batch=each, projection_dim=dim,
            hessian_reg=1e-2, hessian_inverse_tol=2e-2,
        )  # fmt: skip

    for name, question in FUNCTIONS.items():
        add(f"naive/{kind}/{loss}/{dim}/{name}", "NaiveInfluenceFunction", ask(naive, question, kind), FUNCTIONS_SUITE)


def similarities(library, folder, kind, direction, top_k, size):
    subject = Subject(kind)
    layers = ["fc1", "fc2"] if kind == "net" else ["conv", "fc"]
    options = {} if direction == "max" else {
        "similarity_metric": library._core.similarity_influence.euclidean_distance
    }  # fmt: skip
    found = library.SimilarityInfluence(
        subject.model, layers, subject.train_x[:8], str(folder), "model", similarity_direction=direction,
        batch_size=size, **options,
    ).influence(subject.test_x, top_k=top_k)  # fmt: skip
    return {name: tuple(pair) for name, pair in found.items()}


for case in product(("net", "conv"), ("max", "min"), (1, 3), (4, 11)):

    def similar(library, given, case=case):
        with tempfile.TemporaryDirectory() as folder:
            return similarities(library, folder, *case)

    add("/".join(map(str, ("similarity", *case))), "SimilarityInfluence", similar)

add(
    "stored-activations/net",
    "SimilarityInfluence",
    lambda library, given: similarities(library, library.folder / "kept", "net", "max", 2, 4),
)


def single_layer(library, given):
    subject = Subject("net")
    influence = library.SimilarityInfluence(
        subject.model, "fc1", subject.train_x[:8], str(library.folder / "kept"), "model"
    )
    return dict(influence.influence(subject.test_x, top_k=2))


add("similarity/one-layer", "SimilarityInfluence", single_layer)


def two_losses(library, given):
    subject = Subject("net")
    influence = library.TracInCP(
        subject.model, subject.train, iter(range(3)), subject.load, loss_fn=LOSSES["sum"](), batch_size=4,
        test_loss_fn=LOSSES["mean"](), sample_wise_grads_per_batch=True,
    )  # fmt: skip
    return influence.influence(subject.inputs)


add("errors/sum-and-mean", "errors", two_losses)


def left_as_it_was(library, given):
    subject = Subject("net")
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    library.TracInCP(
        subject.model, subject.train, iter(range(3)), subject.load, loss_fn=LOSSES["none"](), batch_size=4
    ).influence(subject.inputs)
    return {name: bool(torch.equal(value, before[name])) for name, value in subject.model.state_dict().items()}


add("effects/parameters", "effects", left_as_it_was)


def checkpoints_of(how):
    def call(library, given):
        subject = Subject("net")
        paths = []
        for k in (0, 1, 2):
            path = library.folder / f"step-{(2, 10, 1)[k]}.pt"
            torch.save(subject.states[k], path)
            paths.append(str(path))
        given = {"folder": str(library.folder), "list": paths, "empty": [], "none": None}[how]
        influence = library.TracInCP(subject.model, subject.train, given, loss_fn=LOSSES["none"](), batch_size=4)
        return [Path(path).name for path in influence.checkpoints], influence.influence(subject.inputs)

    return call


for how in ("folder", "list", "empty", "none"):
    add(f"checkpoints/{how}", "checkpoints", checkpoints_of(how))

for program in (
    "library.TracInCP(s.model, s.train, iter(range(3)), s.load, loss_fn=L['sum'](), batch_size=4)",
    "library.TracInCP(s.model, s.train, iter(range(3)), s.load, loss_fn=L['none'](), sample_wise_grads_per_batch=True)",
    "library.TracInCPFast(s.model, 'fc2', s.train, iter(range(3)), s.load, loss_fn=L['none'](), batch_size=4)",
    "library.TracInCP(s.model, s.train, iter(range(3)), s.load, loss_fn=L['none']()).influence(s.inputs, k=0)",
    "library.TracInCP(s.model, s.loader(shuffle=True), iter('0'), lambda *a: 1.0).influence(s.inputs).shape",
    "library._core.similarity_influence.cosine_similarity(s.test_x, s.train_x)",
    "library._core.similarity_influence.cosine_similarity(s.test_x * 0, s.train_x, replace_nan=-2)",
    "library._core.similarity_influence.euclidean_distance(s.test_x, s.train_x)",
):  # fmt: skip
    add(
        f"programs/{program.partition('.')[2][:200]}",
        "programs",
        lambda library, given, program=program: eval(program, {"library": library, "s": Subject("net"), "L": LOSSES}),
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


@pytest.mark.parametrize("cell", FUNCTIONS_SUITE.cells, ids=str)
def test_influence_functions_of_both_libraries_are_the_same(cell):
    FUNCTIONS_SUITE.check(cell)


@pytest.mark.parametrize("suite", [SUITE, FUNCTIONS_SUITE], ids=lambda suite: suite.name)
def test_every_intended_difference_is_one(suite):
    suite.check_differences()
