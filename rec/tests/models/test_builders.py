"""Models by name: they are found, built small, and treat every example by itself."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec.conformance import example_inputs, model_config
from flambeau.rec.models import get_model, list_models
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

NAMES = sorted(list_models())


def examples(ids, places):
    """Some examples of a batch."""
    bags = [bag for key in ids.keys() for bag in (ids[key].to_dense()[place] for place in places)]  # noqa: SIM118
    lengths = torch.tensor([len(bag) for bag in bags], dtype=torch.int64)
    return KeyedJaggedTensor(ids.keys(), torch.cat([ids.values()[:0], *bags]), lengths=lengths)


def part(inputs, places):
    return tuple(one[places] if isinstance(one, torch.Tensor) else examples(one, places) for one in inputs)


def outputs(model, inputs):
    with torch.no_grad():
        found = model(*inputs)
    return found if isinstance(found, tuple) else (found,)


def test_all_models_are_listed():
    assert [name.rpartition("/")[2] for name in NAMES] == [
        "bert4rec_movielens",
        "deepfm_criteo",
        "dlrm_criteo",
        "dlrm_dcn_criteo",
        "dlrm_projection_criteo",
        "dlrm_transformer_criteo",
        "interaction_ranker",
        "two_tower_movielens",
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if "transformer" not in name])
def test_what_a_model_says_of_an_example_does_not_depend_on_the_others(name):
    torch.manual_seed(0)
    short = name.rpartition("/")[2]
    model = get_model(name, **model_config(short)).eval()
    inputs = example_inputs(short, 4)
    for places in ([0], [2, 1], []):
        for whole, some in zip(outputs(model, inputs), outputs(model, part(inputs, places)), strict=True):
            torch.testing.assert_close(some, whole[places])


def test_a_transformer_among_features_looks_at_all_examples_as_upstreams_does():
    torch.manual_seed(0)
    name = "dlrm_transformer_criteo"
    model = get_model(name, **model_config(name)).eval()
    inputs = example_inputs(name, 4)
    (whole,), (alone,) = outputs(model, inputs), outputs(model, part(inputs, [0]))
    assert not torch.allclose(whole[:1], alone)


@pytest.mark.parametrize("name", ["dlrm_criteo", "deepfm_criteo"])
def test_a_number_of_rows_for_each_table_must_be_for_each(name):
    with pytest.raises(ValueError, match="num_embeddings has 2 entries, expected 26"):
        get_model(name, num_embeddings=[10, 10])


@pytest.mark.parametrize(("n", "k", "count"), [(5, 2, 10), (7, 5, 21), (0, 0, 1), (2, 5, 0), (5, -1, 0), (-1, 0, 0)])
def test_sets_are_counted(n, k, count):
    from flambeau.rec.models.dlrm import choose

    assert choose(n, k) == count
