"""`apply` and its relatives; `map` over processes."""

import pytest
import torch

from flambeau.data.tensordict import TensorDict, lazy_stack


def test_apply_calls_the_function_on_every_tensor(td):
    result = td.apply(lambda leaf: leaf + 1)
    assert torch.equal(result["b", "c"], td["b", "c"] + 1)
    assert result.batch_size == td.batch_size


def test_a_result_that_does_not_fit_the_batch_size_is_refused(td):
    with pytest.raises(RuntimeError, match="does not begin with the batch size"):
        td.apply(lambda leaf: leaf[0])
    assert td.apply(lambda leaf: leaf[0], batch_size=[3]).batch_size == torch.Size([3])


def test_none_leaves_an_entry_out_and_filter_empty_tells_what_becomes_of_its_parent(td):
    td["empty"] = TensorDict({}, [4, 3])
    a = td["a"]
    only_a = {
        flag: td.apply(lambda leaf: leaf if leaf is a else None, filter_empty=flag) for flag in (None, True, False)
    }
    assert list(only_a[None].keys()) == ["a", "empty"]
    assert list(only_a[True].keys()) == ["a"]
    assert list(only_a[False].keys()) == ["a", "b", "empty"]
    assert td.exclude("empty").apply(lambda leaf: None) is None


def test_several_tensordicts_go_in_step_by_key(td):
    other = TensorDict({"b": {"d": td["b", "d"] * 2, "c": td["b", "c"] * 2}, "a": td["a"] * 2}, [4, 3])
    assert torch.equal(td.apply(torch.add, other)["b", "c"], td["b", "c"] * 3)
    with pytest.raises(KeyError, match="'a'"):
        td.apply(torch.add, other.exclude("a"))
    result = td.apply(lambda leaf, opposite: leaf if opposite is None else opposite, other.exclude("a"), default=None)
    assert torch.equal(result["a"], td["a"])


def test_in_place_results_land_in_the_tensors_that_are_there(td):
    before = td["a"]
    assert td.apply_(lambda leaf: leaf * 0) is td
    assert td["a"] is before
    assert not before.any()


def test_named_apply_gives_the_key_in_full_or_its_last_part(td):
    full, last = [], []
    td.named_apply(lambda key, leaf: full.append(key), nested_keys=True)
    td.named_apply(lambda key, leaf: last.append(key))
    assert full == ["a", ("b", "c"), ("b", "d")]
    assert last == ["a", "c", "d"]


def test_a_lazy_stack_applies_to_its_tensordicts_and_stays_one():
    lazy = lazy_stack([TensorDict({"x": torch.zeros(size)}) for size in (2, 3)])
    assert [part["x"].shape for part in lazy.apply(lambda leaf: leaf + 1).tensordicts] == [(2,), (3,)]


def test_non_tensor_data_are_passed_over():
    td = TensorDict({"x": torch.zeros(2), "name": "first"}, [2])
    assert td.apply(lambda leaf: leaf + 1)["name"] == "first"


def double(td):
    return td.apply(lambda leaf: leaf * 2)


def seed_of(td):
    return TensorDict({"seed": torch.full(td.batch_size, torch.initial_seed())}, td.batch_size)


def total(td):
    return td["a"].sum()


@pytest.mark.parametrize(
    "options", [{"chunksize": 3}, {"num_chunks": 2}, {"chunksize": 0}, {"index_with_generator": True}]
)
@pytest.mark.parametrize("workers", [0, 2])
def test_map_puts_the_results_of_all_parts_together(td, options, workers):
    result = (
        td.map(double, 0, workers, mp_start_method="fork", **options) if workers else td.map(double, 0, 0, **options)
    )
    assert (result == td * 2).all()


def test_map_writes_into_shared_memory_from_the_workers(td):
    out = (td * 0).share_memory_()
    assert td.map(double, 0, 2, out=out, mp_start_method="fork") is out
    assert (out == td * 2).all()


def test_every_worker_has_a_seed_of_its_own():
    td = TensorDict({"x": torch.zeros(8)}, [8])
    generator = torch.Generator().manual_seed(3)
    options = {"chunksize": 1, "max_tasks_per_child": 1, "generator": generator, "mp_start_method": "fork"}
    seeds = td.map(seed_of, 0, 2, **options)["seed"]
    assert len(set(seeds.tolist())) == 8
    assert seeds.max() - seeds.min() == 7


def test_map_iter_gives_results_in_order_and_can_shuffle_elements(td):
    sums = list(td.map_iter(total, 0, 0, chunksize=1))
    assert [float(one) for one in sums] == pytest.approx(td["a"].sum(1).tolist())
    shuffled = list(td.map_iter(double, 0, 0, chunksize=1, shuffle=True, generator=torch.Generator().manual_seed(1)))
    values = torch.cat(shuffled)["a"]
    assert not torch.equal(values, td["a"] * 2)
    assert torch.equal(values.sort(0).values, (td["a"] * 2).sort(0).values)
    with pytest.raises(ValueError, match="not both"):
        td.map(double, 0, 0, chunksize=1, num_chunks=2)
