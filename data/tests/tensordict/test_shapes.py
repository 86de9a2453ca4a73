"""Shape operations act on batch dimensions, as the functions of the same name do on tensors."""

import pytest
import torch

from flambeau.data.tensordict import TensorDict, lazy_stack

# Operation -> the same for a tensor of the batch's dimensions; all work on the batch size [4, 3].
SAME = {
    "view": lambda x: x.view(3, 4),
    "view -1": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(2, -1),
    "flatten": lambda x: x.flatten(),
    "flatten dims": lambda x: x.flatten(0, 1),
    "unflatten": lambda x: x.unflatten(0, (2, 2)),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze last": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, -1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "movedim": lambda x: x.unsqueeze(0).movedim(0, 2),
    "movedim many": lambda x: x.unsqueeze(0).movedim((0, 1), (2, 0)),
    "expand": lambda x: x.expand(2, 4, 3),
    "expand -1": lambda x: x[:, :1].expand(-1, 5),
    "repeat": lambda x: x.repeat(2, 3),
    "tile": lambda x: x.tile((2, 1)),
    "tile short": lambda x: x.tile((2,)),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
    "repeat_interleave many": lambda x: x.repeat_interleave(torch.tensor([0, 1, 2, 1]), dim=0),
    "roll": lambda x: x.roll(1, 0),
    "roll all": lambda x: x.roll(5),
    "roll two": lambda x: x.roll((1, 2), (0, 1)),
    "flip": lambda x: x.flip((0, 1)),
    "rot90": lambda x: x.rot90(),
    "rot90 back": lambda x: x.rot90(-1),
    "rot180": lambda x: x.rot90(2, (1, 0)),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "gather": lambda x: x.gather(1, torch.tensor([[0, 2], [1, 1]])),
    "masked_select": lambda x: x.masked_select(torch.arange(12).reshape(4, 3) % 2 == 0),
    "unbind": lambda x: x.unbind(1)[2],
    "split": lambda x: x.split(3, 0)[1],
    "split equal": lambda x: x.split(2, 0)[1],
    "split one": lambda x: x.split(1, 1)[2],
    "split list": lambda x: x.split([1, 3], 0)[1],
    "chunk": lambda x: x.chunk(3, 0)[1],
    "tensor_split": lambda x: x.tensor_split(3)[1],
    "tensor_split at": lambda x: x.tensor_split([1, 3])[1],
    "stack": lambda x: torch.stack([x, x], 1),
    "stack last": lambda x: torch.stack([x, x], -1),
    "cat": lambda x: torch.cat([x, x], 1),
}


@pytest.mark.parametrize("operation", SAME)
def test_batch_dimensions_are_those_of_the_result_on_a_tensor(td, operation):
    td = td.select("a", ("b", "d"))
    result = SAME[operation](td)
    for key in td.keys(True, True):
        assert torch.equal(result[key], SAME[operation](td[key]))
    assert result.batch_size == result["b"].batch_size == result["a"].shape


@pytest.mark.parametrize("operation", SAME)
def test_features_go_along_with_their_element(operation):
    numbers = torch.arange(12).reshape(4, 3)
    td = TensorDict({"x": numbers, "y": torch.stack([numbers, -numbers], -1)}, [4, 3])
    result = SAME[operation](td)
    assert torch.equal(result["y"][..., 0], result["x"])
    assert torch.equal(result["y"][..., 1], -result["x"])


@pytest.mark.parametrize("operation", [name for name in SAME if name not in ("stack", "stack last", "cat")])
@pytest.mark.parametrize("stack_dim", [0, 1])
def test_a_lazy_stack_gives_the_elements_of_the_dense_one(td, operation, stack_dim):
    lazy = lazy_stack(td.unbind(stack_dim), stack_dim)
    result, expected = SAME[operation](lazy), SAME[operation](td)
    assert result.batch_size == expected.batch_size
    assert (result == expected).all()


def test_names_follow_their_dimension():
    td = TensorDict({"a": torch.zeros(4, 3), "b": {"c": torch.zeros(4, 3)}}, [4, 3], names=["time", "env"])
    assert td["b"].names == ["time", "env"]
    assert td.permute(1, 0).names == ["env", "time"]
    assert td[0].names == td.unbind(0)[0].names == ["env"]
    assert td.unsqueeze(1).names == ["time", None, "env"]
    assert td.flatten().names == [None]
    assert torch.stack([td, td], 2).names == ["time", "env", None]
    assert td.rename(time="t").names == ["t", "env"]
    assert td.sum(0).names == ["env"]
    with pytest.raises(ValueError, match="not distinct"):
        td.names = ["x", "x"]
    with pytest.raises(RuntimeError, match="cannot be refined"):
        td.refine_names("other", "env")


def test_a_view_as_another_dtype_reinterprets_bits():
    td = TensorDict({"a": torch.ones(4)}, [4])
    assert td.view(torch.int32)["a"].tolist() == [0x3F800000] * 4


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (lambda td: td.reshape(5), RuntimeError),
        (lambda td: td.permute(0, 0), ValueError),
        (lambda td: td.expand(3), RuntimeError),
        (lambda td: td.split([1, 1]), RuntimeError),
        (lambda td: td.split(0), ValueError),
        (lambda td: td.unbind(2), IndexError),
        (lambda td: td.repeat(2), ValueError),
        (lambda td: torch.stack([td, td.exclude("a")]), RuntimeError),
        (lambda td: torch.cat([td, td.exclude("a")]), KeyError),
        (lambda td: torch.stack([td, td[:2]]), RuntimeError),
        (lambda td: torch.exp(td), TypeError),
    ],
)
def test_what_cannot_be_done_is_refused(td, operation, error):
    with pytest.raises(error):
        operation(td)


def test_stack_and_cat_write_into_the_tensors_of_out(td):
    out = torch.stack([td, td]).zero_()
    tensors = [out["a"], out["b", "c"]]
    assert torch.stack([td, td + 1], out=out) is out
    assert out["a"] is tensors[0]
    assert torch.equal(out["b", "c"][1], td["b", "c"] + 1)
    torch.cat([td[:1], td[1:]], out=out[0])
    assert torch.equal(out["a"][0], td["a"])


def test_gradients_flow_through_cutting_and_stacking():
    a = torch.ones(4, requires_grad=True)
    td = TensorDict({"a": a}, [4])
    torch.stack([td, td * 2]).split(1, 1)[0]["a"].sum().backward()
    assert a.grad.tolist() == [3, 0, 0, 0]


def test_many_children_share_one_batch_size_object():
    children = TensorDict({"a": torch.zeros(600, 2), "b": torch.zeros(600)}, [600]).unbind(0)
    assert len(children) == 600
    assert children[0].batch_size is children[599].batch_size


def test_without_batch_dimensions_there_is_one_to_make_and_none_to_name(td):
    single = td[0, 0]
    assert single.flatten().batch_size == (1,)
    assert single.roll(1).batch_size == ()
    with pytest.raises(IndexError):
        single.flatten(0, 5)
    with single.unsqueeze(0) as row:
        row["new"] = torch.ones(1, 2)
    assert torch.equal(single["new"], torch.ones(2))


def test_names_of_dimensions_outlive_what_keeps_the_dimensions(td):
    td.names = ["time", "batch"]
    assert td.roll(1).names == ["time", "batch"]
    assert td.to_padded_tensor().names == ["time", "batch"]
    assert td.unflatten(0, (2, 2)).names == [None, "time", "batch"]
    assert TensorDict(td).names == []
    assert TensorDict(td, [4]).names == ["time"]


def test_a_mask_of_more_dimensions_than_the_batch_is_refused(td):
    with pytest.raises(RuntimeError, match="mask"):
        td.masked_fill(torch.ones(4, 3, 2).bool(), 0)
    with pytest.raises(RuntimeError, match="mask"):
        td[0, 0].masked_fill_(torch.ones(2).bool(), 0)
