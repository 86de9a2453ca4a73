"""Elementwise arithmetic, comparison and reductions, over all tensors at once."""

import operator

import pytest
import torch

from flambeau.data.tensordict import TensorDict, assert_close, lazy_stack

UNARY = (
    "abs", "exp", "neg", "sign", "sqrt", "sigmoid", "floor", "round", "tanh", "log1p", "isnan", "isfinite",
    "reciprocal", "trunc", "cos", "erf",
)  # fmt: skip
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod]
COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
REDUCTIONS = {
    "sum": torch.sum, "mean": torch.mean, "prod": torch.prod, "std": torch.std, "var": torch.var, "amax": torch.amax,
    "amin": torch.amin, "nansum": torch.nansum, "nanmean": torch.nanmean,
}  # fmt: skip


@pytest.fixture(params=["dense", "lazy"])
def numbers(request) -> TensorDict:
    """Positive floats of batch size [4, 3]."""
    generator = torch.Generator().manual_seed(0)
    x, z = torch.rand(4, 3, generator=generator), torch.rand(4, 3, 2, generator=generator)
    td = TensorDict({"x": x + 0.5, "y": {"z": z + 0.5}}, [4, 3])
    return td if request.param == "dense" else lazy_stack(td.unbind(1), 1)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument(numbers, name):
    result = getattr(numbers, name)()
    for key in ("x", ("y", "z")):
        assert torch.equal(result[key], getattr(torch, name)(numbers[key]))


@pytest.mark.parametrize("name", [name for name in UNARY if not name.startswith("is")])
def test_in_place_functions_keep_the_tensors(numbers, name):
    expected = getattr(numbers, name)()
    leaves = numbers._leaves()
    assert getattr(numbers, name + "_")() is numbers
    assert all(new is old for new, old in zip(numbers._leaves(), leaves, strict=True))
    assert (numbers == expected).all()


@pytest.mark.parametrize("combine", BINARY)
@pytest.mark.parametrize("other", ["number", "tensordict", "batch tensor", "row tensor"])
def test_functions_of_two_arguments(numbers, combine, other):
    other = {
        "number": 2.0, "tensordict": numbers * 3, "batch tensor": torch.rand(4, 3) + 1, "row tensor": torch.rand(3) + 1,
    }[other]  # fmt: skip
    result = combine(numbers, other)
    for key in ("x", ("y", "z")):
        opposite = other[key] if isinstance(other, type(numbers)) else other
        if isinstance(opposite, torch.Tensor) and key != "x" and not isinstance(other, type(numbers)):
            opposite = opposite.expand(4, 3).unsqueeze(-1)
        torch.testing.assert_close(result[key], combine(numbers[key], opposite))


def test_numbers_can_stand_on_the_left(numbers):
    torch.testing.assert_close((1 - numbers)["x"], 1 - numbers["x"])
    torch.testing.assert_close((1 / numbers)["x"], 1 / numbers["x"])
    torch.testing.assert_close((2**numbers)["x"], 2 ** numbers["x"])


def test_entries_are_matched_by_key_and_not_by_order(numbers):
    reverse = TensorDict({"y": {"z": torch.zeros(4, 3, 2)}, "x": torch.ones(4, 3)}, [4, 3])
    assert torch.equal((numbers * reverse)["x"], numbers["x"])


def test_different_keys_are_refused_unless_a_default_stands_in():
    left = TensorDict({"a": torch.ones(2), "n": {"b": torch.ones(2)}}, [2])
    right = TensorDict({"n": {"b": torch.ones(2), "c": torch.ones(2)}}, [2])
    with pytest.raises(KeyError, match="'a' are on one side only"):
        left + right
    assert list(left.add(right, default="intersection").keys(True, True)) == [("n", "b")]
    result = left.sub(right, default=5.0)
    assert {key: value[0].item() for key, value in result.items(True, True)} == {
        "a": -4, ("n", "b"): 0, ("n", "c"): 4,
    }  # fmt: skip


def test_integers_beside_gradients_are_added_too():
    td = TensorDict({"f": torch.ones(2, requires_grad=True), "i": torch.tensor([1, 2])}, [2])
    assert (td + 1)["i"].tolist() == [2, 3]
    assert (td * 2)["f"].requires_grad


def test_functions_of_three_arguments(numbers):
    zero = numbers * 0
    assert_close(numbers.lerp(zero, 0.25), numbers * 0.75)
    assert_close(numbers.addcmul(numbers, numbers, value=2), numbers + numbers * numbers * 2)
    assert_close(numbers.addcdiv(numbers, numbers + 1, value=2), numbers + numbers / (numbers + 1) * 2)
    assert_close(numbers.clamp(0.6, 1.0), numbers.clamp_min(0.6).clamp_max(1.0))
    with pytest.raises(TypeError, match="min, max or both"):
        numbers.clamp()


@pytest.mark.parametrize("compare", COMPARE)
def test_comparisons_give_bools(numbers, compare):
    for other in (1.0, numbers + 0.1, torch.full((4, 3), 0.9)):
        result = compare(numbers, other)
        opposite = other["x"] if isinstance(other, type(numbers)) else other
        assert torch.equal(result["x"], compare(numbers["x"], opposite))
        assert result["y", "z"].dtype == torch.bool


def test_all_and_any_sum_up(numbers):
    flags = numbers > 0.5
    assert flags.all() is True
    assert (~flags).any() is False
    assert flags.all(dim=0).batch_size == torch.Size([3])
    with pytest.raises(RuntimeError, match="out of range"):
        flags.all(dim=2)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("options", [{"dim": 0}, {"dim": -1, "keepdim": True}], ids=["dim", "keepdim"])
def test_reductions_along_a_batch_dimension(numbers, name, options):
    result = getattr(numbers, name)(**options)
    dim = options["dim"] % 2
    for key in ("x", ("y", "z")):
        expected = REDUCTIONS[name](numbers[key], dim, keepdim=options.get("keepdim", False))
        torch.testing.assert_close(result[key], expected)
    assert result.batch_size == result["x"].shape


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_whole_tensors_of_features_and_of_everything(numbers, name):
    function = REDUCTIONS[name]
    assert getattr(numbers, name)().batch_size == torch.Size([])
    torch.testing.assert_close(getattr(numbers, name)()["x"], function(numbers["x"]))
    torch.testing.assert_close(getattr(numbers, name)(dim="feature")["y", "z"], function(numbers["y", "z"], -1))
    everything = torch.cat([numbers["x"].flatten(), numbers["y", "z"].flatten()])
    torch.testing.assert_close(getattr(numbers, name)(reduce=True), function(everything))


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_an_entry_without_features_has_one_number_to_reduce_at_each_position():
    td = TensorDict({"x": torch.tensor([1.0, 2.0])}, [2])
    assert td.sum(dim="feature")["x"].tolist() == td.mean(dim="feature")["x"].tolist() == [1, 2]
    assert td.std(dim="feature")["x"].isnan().all() and td.var(dim="feature")["x"].isnan().all()
    assert td.std(dim="feature", correction=0)["x"].tolist() == [0, 0]


def test_a_lazy_stack_is_reduced_to_one_tensor_from_all_that_it_holds():
    stack = lazy_stack([TensorDict(a=torch.ones(2)), TensorDict(a=torch.full((3,), 2.0), only=torch.tensor(5.0))])
    assert stack.sum(reduce=True) == 13 and stack.prod(reduce=True) == 40
    torch.testing.assert_close(stack.mean(reduce=True), torch.tensor(13 / 6))
    torch.testing.assert_close(stack.std(reduce=True), torch.tensor([1.0, 1, 2, 2, 2, 5]).std())


def test_extrema_come_with_their_places(numbers):
    values, places = numbers.max(dim=0)
    expected = numbers["y", "z"].max(dim=0)
    assert torch.equal(values["y", "z"], expected.values)
    assert torch.equal(places["y", "z"], expected.indices)
    assert numbers.cummin(dim=1).values.batch_size == torch.Size([4, 3])
    assert torch.equal(numbers.min(dim=1, return_indices=False)["x"], numbers["x"].amin(1))


def test_quantiles_softmax_and_norms(numbers):
    torch.testing.assert_close(numbers.quantile(0.3, dim=0)["x"], numbers["x"].quantile(0.3, dim=0))
    torch.testing.assert_close(numbers.softmax(-1)["y", "z"], numbers["y", "z"].softmax(1))
    torch.testing.assert_close(numbers.logsumexp(0)["x"], numbers["x"].logsumexp(0))
    torch.testing.assert_close(numbers.norm()["y", "z"], numbers["y", "z"].norm())


def test_gradients_can_be_taken_of_all_tensors_at_once():
    td = TensorDict({"a": torch.ones(3, requires_grad=True), "b": torch.ones(3)}, [3])
    (td * td).sum().backward()
    assert td.grad["a"].tolist() == [2, 2, 2]
    td.zero_grad()
    assert td.grad is None
