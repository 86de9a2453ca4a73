"""Tensorclasses and non-tensor values inside tensordicts take part in everything."""

import pytest
import torch
from torch.utils import _pytree as pytree

from flambeau.data.tensordict import NonTensorStack, TensorDict, lazy_stack, pad, pad_sequence, tensorclass


@tensorclass
class Point:
    x: torch.Tensor
    label: str = "none"


@pytest.fixture
def td() -> TensorDict:
    point = Point(x=torch.arange(6.0).reshape(3, 2), label="p", batch_size=[3])
    return TensorDict({"point": point, "y": torch.ones(3), "words": NonTensorStack("a", "b", "c"), "one": "same"}, [3])


@pytest.mark.parametrize(
    "operation",
    [
        lambda td: td + 1,
        lambda td: td * td,
        lambda td: td.apply(torch.neg),
        lambda td: td.to(torch.float64),
        lambda td: td[[2, 0]],
        lambda td: td[td["y"] > 0],
        lambda td: td.view(3, 1).flatten(),
        lambda td: torch.stack([td, td])[1],
        lambda td: torch.cat([td, td]),
        lambda td: td.split(2)[0],
        lambda td: td.clone(),
        lambda td: torch.zeros_like(td),
        lambda td: pytree.tree_map(torch.exp, td),
        lambda td: td.where(td["y"] > 0, td),
        lambda td: td.detach(),
    ],
)
def test_results_keep_classes_and_values(td, operation):
    result = operation(td)
    assert type(result["point"]) is Point
    assert result["point"].batch_size == result.batch_size
    assert set(result["words"]) <= {"a", "b", "c"}
    assert result["one"] in ("same", ["same"] * len(result))  # stacking makes one value many


def test_a_lazy_stack_of_tensorclasses_is_one(td):
    stack = lazy_stack([td, td])
    assert type(stack["point"]) is Point
    assert stack["point"].x.shape == (2, 3, 2)
    assert stack["words"] == [["a", "b", "c"]] * 2


def test_vmap_reaches_into_tensorclasses(td):
    assert torch.vmap(lambda part: part["point"].x.sum())(td).tolist() == [1, 5, 9]
    assert torch.vmap(lambda point: point.x.sum())(td["point"]).tolist() == [1, 5, 9]


def test_new_elements_have_no_value(td):
    assert pad(td, [1, 0])["words"] == [None, "a", "b", "c"]
    assert pad_sequence([td[:2], td])["words"] == [["a", "b", None], ["a", "b", "c"]]
    assert td.new_zeros(5)["one"] == "same"


def test_where_chooses_values_too(td):
    other = td.clone()
    other["words"] = NonTensorStack("x", "y", "z")
    assert td.where(torch.tensor([True, False, True]), other)["words"] == ["a", "y", "c"]


def test_values_have_no_order_and_stay(td):
    assert (td < 1)["words"] == ["a", "b", "c"]
    assert (td == td).all()
