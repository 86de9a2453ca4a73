"""A locked tensordict keeps its keys and tensors; what they hold can be written."""

import gc

import pytest
import torch

from flambeau.data.tensordict import TensorDict, lazy_stack

REFUSED = {
    "a new key": lambda td: td.set("z", td["a"]),
    "another tensor": lambda td: td.set("a", td["a"].clone()),
    "a nested key": lambda td: td["b"].set("z", td["a"]),
    "an update": lambda td: td.update({"a": td["a"].clone()}),
    "removal": lambda td: td.pop("a"),
    "a new name": lambda td: td.rename_key_("a", "z"),
    "a change of keys in place": lambda td: td.flatten_keys(inplace=True),
    "a write of a new key by index": lambda td: td.__setitem__(0, TensorDict({"z": torch.zeros(3)}, [3])),
}
ALLOWED = {
    "set_": lambda td: td.set_("a", torch.zeros(4, 3)),
    "update_": lambda td: td.update_({"a": torch.zeros(4, 3)}),
    "update in place": lambda td: td.update({"a": torch.zeros(4, 3)}, inplace=True),
    "an index": lambda td: td.__setitem__(slice(None), 0),
    "set_at_": lambda td: td.set_at_("a", 0.0, slice(None)),
    "zero_": lambda td: td.zero_(),
    "apply_": lambda td: td.apply_(lambda leaf: leaf.zero_()),
    "fill_": lambda td: td.fill_("a", 0.0),
}


@pytest.mark.parametrize("change", REFUSED)
def test_keys_and_tensors_are_fixed(td, change):
    with pytest.raises(RuntimeError, match="locked"):
        REFUSED[change](td.lock_())


@pytest.mark.parametrize("change", ALLOWED)
def test_contents_can_be_written(td, change):
    before = td["a"]
    ALLOWED[change](td.lock_())
    assert td["a"] is before
    assert not td["a"].any()


@pytest.mark.parametrize("make", [lambda td: td, lambda td: lazy_stack([td, td.clone()])], ids=["dense", "lazy"])
def test_parts_are_locked_with_the_whole_and_unlocked_with_it_alone(td, make):
    whole = make(td).lock_()
    assert td["b"].is_locked
    with pytest.raises(RuntimeError, match="unlock the one that holds it"):
        td["b"].unlock_()
    whole.unlock_()
    assert not td["b"].is_locked
    td["b", "z"] = td["a"]


def test_a_part_of_two_locked_wholes_needs_both_unlocked():
    part = TensorDict({"x": torch.zeros(2)})
    one, two = TensorDict({"part": part}).lock_(), TensorDict({"part": part}).lock_()
    with pytest.raises(RuntimeError, match="unlock the one that holds it"):
        one.unlock_()
    assert part.is_locked
    del two
    gc.collect()
    one.unlock_()
    assert not part.is_locked


def test_blocks_lock_and_unlock_even_when_they_fail(td):
    with td.lock_():
        assert td.is_locked
    assert not td.is_locked
    td.lock_()
    with pytest.raises(ZeroDivisionError), td.unlock_():
        td["z"] = td["a"]
        1 / 0
    assert td.is_locked
    assert "z" in td


@pytest.mark.parametrize(
    ("result", "locked"),
    [
        ("clone()", False), ("copy()", False), ("[0]", False), ("select('a')", False), ("apply(torch.neg)", False),
        ("unbind(0)[0]", False), ("view(12)", True), ("reshape(12)", True), ("unsqueeze(0)", True), ("abs()", True),
        ("permute(1, 0)", True), ("expand(2, 4, 3)", True), ("split(2)[0]", True), ("to(torch.float64)", True),
        ("detach()", True),
    ],
)  # fmt: skip
def test_results_of_a_locked_tensordict(td, result, locked):
    td.lock_()
    made = eval(f"td.{result}" if result[0] != "[" else f"td{result}", {"td": td, "torch": torch})
    assert made.is_locked is locked
    if "b" in made:
        assert made["b"].is_locked is locked


def test_an_augmented_assignment_is_refused(td):
    td.lock_()
    with pytest.raises(RuntimeError, match="locked"):
        td["a"] += 1


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("operation", ["lock_", "unlock_"])
def test_a_block_ends_in_the_state_it_began_in(locked, operation):
    source = TensorDict(a=torch.zeros(2))
    if locked:
        source.lock_()
    with getattr(source, operation)():
        assert source.is_locked is (operation == "lock_")
    assert source.is_locked is locked


@pytest.mark.parametrize(
    ("operation", "locked"),
    [
        (lambda td: td + 1, True),
        (lambda td: td + td, True),
        (lambda td: td.add(td, default="intersection"), True),
        (lambda td: td.norm(), True),
        (lambda td: td + torch.ones(3), False),
        (lambda td: td.clamp(0, 1), False),
        (lambda td: td.clamp(min=0), True),
        (lambda td: td.clamp_max(0), True),
        (lambda td: td.bool() & td.bool(), True),
        (lambda td: td.double(), True),
        (lambda td: torch.zeros_like(td), True),
        (lambda td: td.softmax(0), False),
        (lambda td: td.bool().all(dim=0), False),
        (lambda td: td.type(torch.float64), False),
    ],
)  # fmt: skip
def test_arithmetic_on_a_locked_tensordict_gives_a_locked_one_but_for_some(operation, locked):
    td = TensorDict({"x": torch.ones(3), "n": {"y": torch.ones(3)}}, [3]).lock_()
    result = operation(td)
    assert result.is_locked is result["n"].is_locked is locked


def test_what_cannot_be_removed_is_refused_before_it_is_looked_for(td):
    td.lock_()
    with pytest.raises(RuntimeError, match="locked"):
        td.del_("missing")
    with pytest.raises(RuntimeError, match="locked"):
        td.cat_tensors("a", "missing", out_key="c")


@pytest.mark.parametrize(
    "change", [lambda td: td.to(torch.float64, inplace=True), lambda td: td.contiguous(inplace=True)]
)
def test_tensors_are_not_replaced_in_place(td, change):
    with pytest.raises(RuntimeError, match="locked"):
        change(td.lock_())


def test_results_made_to_be_changed_are_unlocked(td):
    td.lock_()
    assert not td.contiguous().is_locked
    assert not td.exclude()["b"].is_locked
    assert not td.expand_as(td.unsqueeze(0)).is_locked
    assert not td.select("a").view(torch.int32).is_locked


def test_results_of_the_same_tensors_are_locked(td):
    td.lock_()
    assert td.as_tensor().is_locked
    assert td.to(td).is_locked


def test_a_locked_tensordict_refuses_to_select_in_place_before_it_looks_for_a_missing_key():
    td = TensorDict({"a": torch.ones(2)}, [2]).lock_()
    with pytest.raises(RuntimeError, match="lock"):
        td.select("absent", inplace=True)
