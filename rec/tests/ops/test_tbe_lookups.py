"""Look-ups by FBGEMM's names do what tables do that name no operators; what they are told, and made-up indices."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    EmbeddingLocation,
    SplitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.ops import tbe_lookups, tbe_metadata
from flambeau.rec.ops.tbe_indices import tbe_estimate_indices_distribution, tbe_generate_indices_from_distribution

OPS = torch.ops.flambeau_rec
SPECS = ((7, 4), (5, 8))
INDICES, OFFSETS = torch.tensor([0, 3, 3, 6, 1, 4, 4]), torch.tensor([0, 2, 4, 6, 7])
BY_ELEMENT = {
    "exact_adagrad": (True,), "lars_sgd": (True,), "adam": (True, True), "lamb": (True, True),
    "partial_row_wise_adam": (True, False), "partial_row_wise_lamb": (True, False), "exact_row_wise_adagrad": (False,),
}  # fmt: skip
NAMES = {
    "exact_sgd": "sgd", "exact_adagrad": "adagrad", "exact_row_wise_adagrad": "rowwise_adagrad", "adam": "adam",
    "partial_row_wise_adam": "partial_rowwise_adam", "lamb": "lamb", "partial_row_wise_lamb": "partial_rowwise_lamb",
    "lars_sgd": "lars_sgd",
}  # fmt: skip
ADAM = {"eps": 1e-3, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.1}
OPTIONS = {
    "exact_sgd": {}, "exact_adagrad": {"eps": 1e-3}, "exact_row_wise_adagrad": {"eps": 1e-3}, "adam": ADAM,
    "partial_row_wise_adam": ADAM, "lamb": ADAM, "partial_row_wise_lamb": ADAM,
    "lars_sgd": {"eta": 0.5, "momentum": 0.7, "weight_decay": 0.1},
}  # fmt: skip
PLACES = torch.tensor([3, 3], dtype=torch.int32)
STARTS = {True: torch.tensor([0, 28]), False: torch.tensor([0, 7])}


def expected(optimizer):
    torch.manual_seed(0)
    place = EmbeddingLocation.HOST, ComputeDevice.CPU
    made = SplitTableBatchedEmbeddingBagsCodegen(
        [(*spec, *place) for spec in SPECS], optimizer=EmbOptimType(optimizer), learning_rate=0.1, **OPTIONS[optimizer]
    )
    made.init_embedding_weights_uniform(-1, 1)
    before = made.weights_host.detach().clone()
    output = made(INDICES, OFFSETS)
    output.square().sum().backward()
    return before, output.detach(), made.weights_host.detach(), [state for _, state in states_of(made)]


def states_of(made):
    return [(n, p) for n, p in made.named_parameters() if n.startswith("momentum")]


def kept(optimizer):
    return [[torch.zeros(68 if one else 12), PLACES, STARTS[one]] for one in BY_ELEMENT.get(optimizer, ())]


def tables():
    return {
        "D_offsets": torch.tensor([0, 4, 12], dtype=torch.int32), "total_D": 12, "max_D": 8,
        "hash_size_cumsum": torch.tensor([0, 7, 12]), "total_hash_size_bits": 4, "indices": INDICES,
        "offsets": OFFSETS, "pooling_mode": 0, "indice_weights": None, "feature_requires_grad": None,
    }  # fmt: skip


@pytest.mark.parametrize("optimizer", NAMES)
def test_look_ups_that_name_their_options_train_as_tables_do(optimizer):
    weights, output, after, states = expected(optimizer)
    weights.requires_grad_()
    memory = kept(optimizer)
    named = {
        f"momentum{at}_{part}": one
        for at, parts in enumerate(memory, 1)
        for part, one in zip(("host", "placements", "offsets"), parts, strict=True)
    }
    steps = {"iter": 1} if optimizer in ("adam", "lamb", "partial_row_wise_adam", "partial_row_wise_lamb") else {}
    found = getattr(OPS, f"split_embedding_codegen_lookup_{NAMES[optimizer]}_function_cpu")(
        host_weights=weights, weights_placements=PLACES, weights_offsets=STARTS[True], **tables(),
        gradient_clipping=False, max_gradient=1.0, stochastic_rounding=False, **named, **OPTIONS[optimizer],
        learning_rate=0.1, **steps,
    )  # fmt: skip
    assert torch.equal(found.detach(), output)
    found.square().sum().backward()
    assert torch.equal(weights.detach(), after)
    assert all(torch.equal(mine[0], state) for mine, state in zip(memory, states, strict=True))


@pytest.mark.parametrize("optimizer", NAMES)
def test_look_ups_that_list_their_options_train_as_tables_do(optimizer):
    weights, output, after, states = expected(optimizer)
    weights.requires_grad_()
    memory = kept(optimizer)
    options = list(OPTIONS[optimizer].values())
    lists = {"optim_float": options} if options else {}
    if optimizer == "exact_row_wise_adagrad":
        lists = {"optim_int": [0], "optim_float": [1e-3, 0.0, 0.0]}
    if optimizer == "adam":
        lists |= {"optim_tensor": [], "optim_bool": [False]}
    found = getattr(OPS, f"split_embedding_codegen_lookup_{NAMES[optimizer]}_function_pt2")(
        placeholder_autograd_tensor=torch.zeros(0), weights=[weights, PLACES, STARTS[True]], **tables(),
        output_dtype=0, aux_tensor=[None] * 7, aux_int=[1, 30, 0], aux_float=[0.0, 1.0], aux_bool=[False] * 7,
        **{f"momentum{at}": parts for at, parts in enumerate(memory, 1)}, learning_rate_tensor=torch.tensor(0.1),
        **lists,
    )  # fmt: skip
    assert torch.equal(found.detach(), output)
    found.square().sum().backward()
    torch.testing.assert_close(weights.detach(), after)
    for mine, state in zip(memory, states, strict=True):
        torch.testing.assert_close(mine[0], state.detach())


@pytest.mark.parametrize("gaps", ["weights", "state"])
def test_memory_with_gaps_is_refused_where_it_is_trained(gaps):
    def apart(one):
        return torch.stack([one, one], 1)[:, 0]

    weights, state = torch.randn(68), torch.zeros(68)
    weights, state = (apart(weights), state) if gaps == "weights" else (weights, apart(state))
    with pytest.raises(RuntimeError, match=f"{gaps} has gaps, and is trained where it lies"):
        OPS.split_embedding_codegen_lookup_adagrad_function_cpu(
            host_weights=weights, weights_placements=PLACES, weights_offsets=STARTS[True], **tables(),
            gradient_clipping=False, max_gradient=1.0, stochastic_rounding=False, momentum1_host=state,
            momentum1_placements=PLACES, momentum1_offsets=STARTS[True],
        )  # fmt: skip


def test_memory_with_gaps_is_looked_up_as_it_is_without_them():
    whole = torch.randn(68)
    results = [
        OPS.split_embedding_codegen_lookup_none_function_cpu(
            host_weights=weights, weights_placements=PLACES, weights_offsets=STARTS[True], **tables(),
            gradient_clipping=False, max_gradient=1.0, stochastic_rounding=False,
        )
        for weights in (whole, torch.stack([whole, whole], 1)[:, 0])
    ]  # fmt: skip
    assert torch.equal(*results)


def test_look_ups_without_an_optimizer_give_the_gradient():
    weights = torch.randn(68, requires_grad=True)
    given = tables()
    given.pop("indice_weights")
    output = tbe_lookups.dense_embedding_codegen_lookup_function(
        weights, STARTS[True], *(given[name] for name in ("D_offsets", "total_D", "max_D", "hash_size_cumsum")), 4,
        INDICES, OFFSETS, 0, None, None,
    )  # fmt: skip
    output.sum().backward()
    assert weights.grad[28:].view(5, 8)[:, 0].tolist() == [0, 1, 0, 0, 2]


def test_optimizers_that_were_given_up_say_so():
    operator = OPS.split_embedding_codegen_lookup_approx_sgd_function_cpu
    given = tables()
    with pytest.raises(RuntimeError, match="was given up by FBGEMM"):
        operator(
            host_weights=torch.zeros(68), weights_placements=PLACES, weights_offsets=STARTS[True], **given,
            gradient_clipping=False, max_gradient=1.0, stochastic_rounding=False,
        )  # fmt: skip


def test_facts_of_batches_are_known_to_compilers():
    arguments = (
        torch.tensor([0, 1, 3]), torch.tensor([[0, 1], [0, 2]]), torch.tensor([0, 4, 12]), torch.tensor([0, 4, 8]), -1,
        False, 2, 26, 3,
    )  # fmt: skip
    torch.library.opcheck(OPS.generate_vbe_metadata.default, arguments)
    places, numbers = tbe_metadata.generate_vbe_metadata(*arguments)
    assert places.tolist() == [0, 4, 8]
    assert numbers.tolist() == [0, 1 << 26, 1 << 26 | 1]
    elsewhere, _ = tbe_metadata.generate_vbe_metadata(*arguments, torch.tensor([[100, 200]]))
    assert elsewhere.tolist() == [100, 200, 204]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({0: torch.tensor([0, 1])}, "expected 3"),
        ({8: 5}, "total_B is 5, expected 3"),
        ({2: torch.tensor([0])}, "places"),
    ],
)
def test_facts_of_batches_that_do_not_fit_are_refused(changed, message):
    arguments = [
        torch.tensor([0, 1, 3]), torch.tensor([[0, 1], [0, 2]]), torch.tensor([0, 4, 12]), torch.tensor([0, 4, 8]), -1,
        False, 2, 26, 3,
    ]  # fmt: skip
    for at, value in changed.items():
        arguments[at] = value
    with pytest.raises(RuntimeError, match=message):
        tbe_metadata.generate_vbe_metadata(*arguments)


def test_pruned_rows_and_their_states_become_0_in_every_memory():
    weights, cached = torch.ones(7 * 4 + 5 * 4), torch.ones(32, 4)
    state = torch.full((1, 32), -1)
    state[0, 3] = 8  # the second table's second row, whose tables have a cache
    momentum = torch.ones(12)
    places = torch.tensor([2, 2], dtype=torch.int32)
    OPS.reset_weight_momentum(
        torch.ones(0), weights, cached, places, torch.tensor([0, 28]), momentum, torch.ones(0),
        torch.tensor([0, 0], dtype=torch.int32), torch.tensor([0, 7]), torch.tensor([0, 4, 8]), torch.tensor([6, 1]),
        torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([0, 7, 12]), state, 12,
    )  # fmt: skip
    assert weights.view(12, 4)[:, 0].nonzero().flatten().tolist() == [0, 1, 2, 3, 4, 5, 7, 9, 10, 11]
    assert momentum.eq(weights.view(12, 4)[:, 0]).all()
    assert cached[:, 0].eq(0).nonzero().tolist() == [[3]]


def test_memory_that_is_shared_is_the_hosts():
    like = torch.zeros(1, dtype=torch.float16)
    for made in (OPS.new_managed_tensor(like, [2, 3]), OPS.new_unified_tensor(like, [2, 3], True)):
        assert made.shape == (2, 3)
        assert made.dtype == torch.float16
        assert not OPS.is_uvm_tensor(made)
    with pytest.raises(RuntimeError, match="not in memory that is shared"):
        OPS.uvm_to_cpu(like)


def test_indices_that_are_made_up_are_as_frequent_as_those_that_were_looked_at():
    torch.manual_seed(0)
    ranks = torch.arange(1, 2001, dtype=torch.float64)
    source = torch.multinomial((ranks + 3) ** -1.3, 200_000, replacement=True)
    heavy, q, s, largest, count = tbe_estimate_indices_distribution(source)
    assert (largest, count) == (int(source.max()), 200_000)
    made = tbe_generate_indices_from_distribution(heavy, q, s, largest, count)
    frequencies = [one.bincount(minlength=2000).sort(descending=True).values.double() / count for one in (source, made)]
    torch.testing.assert_close(frequencies[0][:20], frequencies[1][:20], rtol=0.1, atol=1e-3)
    for first, last in ((20, 100), (100, 500), (500, 2000)):
        mine, theirs = (float(one[first:last].sum()) for one in frequencies)
        assert abs(mine - theirs) < 0.1 * mine
    with pytest.raises(RuntimeError, match="give at least one"):
        tbe_estimate_indices_distribution(source[:0])
    with pytest.raises(RuntimeError, match="at most 1 in sum"):
        tbe_generate_indices_from_distribution(torch.tensor([0.9, 0.2]), 1.0, 2.0, 9, 3)
