"""Sequences: keys, parts, partial runs, and where results go."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict, lazy_stack
from flambeau.data.tensordict.nn import TensorDictModule, TensorDictSequential


def chain(**options) -> TensorDictSequential:
    return TensorDictSequential(
        TensorDictModule(lambda x: x + 1, ["a"], ["h"]),
        TensorDictModule(lambda x: x * 2, ["h"], ["o"]),
        TensorDictModule(lambda x: -x, ["z"], ["o2"]),
        **options,
    )


def chain_of(*keys: tuple[str, str]) -> TensorDictSequential:
    return TensorDictSequential(*(TensorDictModule(torch.neg, [read], [written]) for read, written in keys))


def test_keys_are_what_no_module_before_writes():
    assert (chain().in_keys, chain().out_keys, len(chain())) == (["a", "z"], ["h", "o", "o2"], 3)


def test_a_key_that_is_written_again_stands_where_it_was_written_last():
    assert chain_of(("a", "b"), ("b", "c"), ("c", "b")).out_keys == ["c", "b"]
    assert chain_of(("a", "b"), ("b", "a")).in_keys == ["a"]


def test_parts_are_chosen_by_what_they_read_and_write():
    assert chain().select_subsequence(in_keys=["a"]).out_keys == ["h", "o"]
    assert len(chain().select_subsequence(out_keys=["o"])) == 2
    nested = TensorDictSequential(chain(), TensorDictModule(torch.neg, ["o"], ["last"]))
    assert nested.select_subsequence(in_keys=["a"]).out_keys == ["h", "o", "last"]
    assert nested.select_subsequence(out_keys=["h"]).in_keys == ["a"]
    with pytest.raises(ValueError, match="The selection is empty"):
        chain().select_subsequence(out_keys=["nope"])


def test_members_are_taken_set_and_deleted():
    sequence = chain()
    assert sequence[0] is next(iter(sequence)) and isinstance(sequence[:2], TensorDictSequential)
    sequence[2] = TensorDictModule(torch.neg, ["o"], ["last"])
    assert (sequence.in_keys, sequence.out_keys) == (["a"], ["h", "o", "last"])
    del sequence[2]
    assert sequence.out_keys == ["h", "o"]
    named = TensorDictSequential({"x": TensorDictModule(nn.Linear(1, 2), ["a"], ["h"])})
    assert list(named.state_dict()) == ["module.x.module.weight", "module.x.module.bias"]
    assert named["x"] is named[0]


@pytest.mark.parametrize(("inplace", "batch"), [(False, []), ("empty", [2])])
def test_outputs_alone_come_when_not_in_place(inplace, batch):
    data = TensorDict({"a": torch.ones(2), "z": torch.ones(2)}, [2])
    out = chain(inplace=inplace)(data)
    assert (sorted(out.keys()), out.batch_size) == (["h", "o", "o2"], torch.Size(batch))
    assert sorted(data.keys()) == ["a", "z"]


def test_tensors_in_tensors_out_and_a_receiver():
    h, o, o2 = chain()(torch.ones(1), z=torch.ones(1))
    assert (h.item(), o.item(), o2.item()) == (2.0, 4.0, -1.0)
    data, receiver = TensorDict(a=torch.ones(1), z=torch.ones(1)), TensorDict()
    assert chain()(data, tensordict_out=receiver) is receiver
    assert (sorted(receiver.keys()), sorted(data.keys())) == (["h", "o", "o2"], ["a", "z"])


def test_modules_without_their_entries_are_passed_over():
    out = chain(partial_tolerant=True)(TensorDict(a=torch.ones(1)))
    assert sorted(out.keys()) == ["a", "h", "o"]
    stack = lazy_stack([TensorDict(a=torch.ones(1)), TensorDict(a=torch.ones(1), z=torch.ones(1))])
    chain(partial_tolerant=True)(stack)
    assert [sorted(each.keys()) for each in stack.tensordicts] == [["a", "h", "o"], ["a", "h", "o", "o2", "z"]]


def test_functions_of_a_tensordict_may_stand_between():
    sequence = TensorDictSequential(lambda data: data.set("q", data["a"]), TensorDictModule(torch.neg, ["q"], ["z"]))
    assert sequence(TensorDict(a=torch.ones(1)))["z"].item() == -1.0
    with pytest.raises(TypeError, match="int"):
        TensorDictSequential(3)


def test_outputs_are_selected_at_the_end():
    out = chain(selected_out_keys=["o"])(TensorDict(a=torch.ones(1), z=torch.ones(1)))
    assert sorted(out.keys()) == ["a", "o", "z"]


def test_a_sequence_compiles_as_one_graph():
    compiled = torch.compile(chain(), fullgraph=True, backend="eager")
    assert compiled(TensorDict(a=torch.ones(2), z=torch.ones(2)))["o"].tolist() == [4.0, 4.0]


def test_a_list_of_modules_is_a_sequence():
    modules = [TensorDictModule(torch.neg, ["a"], ["b"]), TensorDictModule(torch.abs, ["b"], ["c"])]
    assert TensorDictSequential(modules)(TensorDict(a=torch.ones(1)))["c"] == 1
    assert len(TensorDictSequential(modules)) == 2
