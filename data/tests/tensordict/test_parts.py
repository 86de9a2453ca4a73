"""Parts of tensordicts through which writes reach the whole: `td._get_sub_tensordict(index)`."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import NonTensorData, TensorDict

INDICES = [slice(0, 2), torch.tensor([0, 1])]


def whole(**options):
    content = {"a": torch.arange(12.0).reshape(3, 4), "b": torch.arange(3), "n": {"c": torch.ones(3)}}
    return TensorDict(content, batch_size=[3], **options)


@pytest.fixture(params=INDICES, ids=["slice", "positions"])
def index(request):
    return request.param


def test_renaming_an_entry_of_a_part_moves_that_of_the_whole(index):
    td = whole()
    kept = td["a"]
    td._get_sub_tensordict(index).rename_key_("a", "b").rename_key_(("n", "c"), "d")
    assert td["b"] is kept and set(td.keys()) == {"b", "d", "n"} and td["d"].tolist() == [1.0] * 3


@pytest.mark.parametrize(("key", "value"), [("a", "text"), ("s", 1.0)])
def test_a_part_cannot_change_whether_an_entry_is_a_tensor(index, key, value):
    td = whole().set("s", "text")
    with pytest.raises(RuntimeError, match="in the whole tensordict"):
        td._get_sub_tensordict(index).set(key, value if isinstance(value, float) else NonTensorData(value))


def test_new_entries_of_a_part_are_converted_and_fit_its_batch_size(index):
    td = whole()
    part = td._get_sub_tensordict(index)
    part["new"] = torch.ones(2).numpy()
    part["s"] = ["x", "y"]
    assert td["new"].tolist() == [1, 1, 0] and td["s"] == ["x", "y", None]
    with pytest.raises(RuntimeError, match=r"does not begin with the batch size \[2\]"):
        part["other"] = torch.ones(5)
    assert "other" not in td


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda part: part.to("cpu", inplace=True), TypeError),
        (lambda part: part.contiguous(inplace=True), NotImplementedError),
        (lambda part: part.detach_(), RuntimeError),
        (lambda part: setattr(part, "names", ["p"]), RuntimeError),
        (lambda part: setattr(part, "is_locked", True), RuntimeError),
        (lambda part: part[5], IndexError),
        (lambda part: part[torch.tensor([5])], IndexError),
    ],
)
def test_what_only_the_whole_can_do_is_refused(index, call, error):
    with pytest.raises(error):
        call(whole()._get_sub_tensordict(index))


def test_a_part_on_a_device_is_a_copy_and_a_contiguous_one_shares_what_is_contiguous():
    td = whole()
    part = td._get_sub_tensordict(slice(0, 2))
    moved = part.to("cpu")
    moved["a"].zero_()
    assert type(moved) is TensorDict and td["a"][0, 1] == 1
    assert part.contiguous()["a"].data_ptr() == td["a"].data_ptr()
    assert type(part.masked_select(torch.tensor([True, False]))) is TensorDict


def test_nested_entries_of_a_part_are_parts(index):
    part = whole()._get_sub_tensordict(index)
    assert part.entry_class("n") is type(part) and part.entry_class("a") is torch.Tensor
