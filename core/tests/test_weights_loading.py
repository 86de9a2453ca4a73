"""Loading into modules: values come from the file, and everything else stays as the constructor made it."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from flambeau.core.errors import CheckpointError, HubError
from flambeau.core.weights import LoadReport, empty_parameters, load_into, load_state_dict


class Net(nn.Module):
    """A convolution, a norm, a head, and one tensor of every kind a module can hold."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, classes)
        self.token = nn.Parameter(torch.zeros(1, 4))
        self.register_buffer("index", torch.arange(4), persistent=False)
        self.table = torch.linspace(0, 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        features = self.norm(self.conv(x)).mean((2, 3)) + self.token
        return self.head(features[:, self.index] * self.table)


class Tied(nn.Module):
    """A language model's classic: input and output share one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.embed.weight


IMAGE = torch.randn(2, 3, 6, 6)
# How a module may look like before it is loaded: with values of its own, or empty.
STARTS = pytest.mark.parametrize("empty", [False, True], ids=["real", "empty"])


def build(kind: Any, empty: bool, *args: Any) -> Any:
    if not empty:
        return kind(*args)
    with empty_parameters():
        return kind(*args)


def trained(module: nn.Module) -> nn.Module:
    """The same module with other values everywhere, as after some steps."""
    with torch.no_grad():
        for tensor in module.state_dict().values():
            tensor.copy_(torch.rand_like(tensor) if tensor.is_floating_point() else tensor + 5)
    return module


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Net, Path]:
    net = trained(Net()).eval()
    torch.save(net.state_dict(), tmp_path / "net.pth")
    return net, tmp_path / "net.pth"  # type: ignore[return-value]


def equal_states(a: nn.Module, b: nn.Module) -> bool:
    one, other = a.state_dict(), b.state_dict()
    same = (torch.equal(one[k], other[k]) and one[k].dtype == other[k].dtype for k in one)
    return list(one) == list(other) and all(same)


class TestValues:
    @STARTS
    def test_outputs_state_and_order_are_the_saved_models(self, saved: tuple[Net, Path], empty: bool) -> None:
        net, path = saved
        loaded = build(Net, empty)
        assert load_into(loaded, path) == LoadReport([], [], [])
        assert equal_states(loaded, net)
        assert torch.equal(loaded.eval()(IMAGE), net(IMAGE))

    @STARTS
    def test_buffers_and_plain_tensors_are_real(self, saved: tuple[Net, Path], empty: bool) -> None:
        loaded = build(Net, empty)
        load_into(loaded, saved[1])
        assert loaded.index.tolist() == [0, 1, 2, 3]
        assert torch.equal(loaded.table, torch.linspace(0, 1, 4))
        assert loaded.norm.num_batches_tracked.item() == 5

    @STARTS
    def test_a_mapping_that_was_read_before_is_a_source_too(self, saved: tuple[Net, Path], empty: bool) -> None:
        net, path = saved
        loaded = build(Net, empty)
        load_into(loaded, load_state_dict(path))
        assert equal_states(loaded, net)

    @settings(max_examples=30, deadline=None)
    @given(
        st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
        st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
        st.booleans(),
        st.booleans(),
    )
    def test_the_modules_dtype_wins_over_the_files(
        self, theirs: torch.dtype, ours: torch.dtype, empty: bool, legacy: bool
    ) -> None:
        source = trained(nn.Linear(3, 2)).to(theirs)
        with torch.device("cpu"):
            loaded = build(lambda: nn.Linear(3, 2, dtype=ours), empty)
        load_into(loaded, source.state_dict() if legacy else OrderedDict(source.state_dict()))
        assert loaded.weight.dtype == loaded.bias.dtype == ours
        assert torch.equal(loaded.weight, source.weight.to(ours))

    @STARTS
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_dtype_casts_the_whole_module_as_to_would(
        self, saved: tuple[Net, Path], empty: bool, dtype: torch.dtype
    ) -> None:
        loaded = build(Net, empty)
        load_into(loaded, saved[1], dtype=dtype)
        assert equal_states(loaded, copy.deepcopy(saved[0]).to(dtype))
        assert loaded.index.dtype == torch.int64

    @STARTS
    def test_channels_last_stays_channels_last(self, saved: tuple[Net, Path], empty: bool) -> None:
        net, path = saved
        loaded = build(lambda: Net().to(memory_format=torch.channels_last), empty)
        load_into(loaded, path)
        assert loaded.conv.weight.is_contiguous(memory_format=torch.channels_last)
        assert not loaded.conv.weight.is_contiguous()
        assert equal_states(loaded, net)

    @STARTS
    def test_a_file_in_channels_last_gives_a_contiguous_module_what_it_expects(
        self, tmp_path: Path, empty: bool
    ) -> None:
        torch.save(Net().to(memory_format=torch.channels_last).state_dict(), tmp_path / "net.pth")
        loaded = build(Net, empty)
        load_into(loaded, tmp_path / "net.pth")
        assert loaded.conv.weight.is_contiguous()

    def test_parameters_in_the_file_are_as_good_as_tensors(self, tmp_path: Path) -> None:
        net = nn.Linear(2, 2)
        torch.save(dict(net.named_parameters()), tmp_path / "net.pth")
        loaded = build(lambda: nn.Linear(2, 2).requires_grad_(False), True)
        load_into(loaded, tmp_path / "net.pth")
        assert torch.equal(loaded.weight, net.weight)
        assert not loaded.weight.requires_grad

    @STARTS
    def test_a_mapping_is_copied_unless_the_module_may_take_it_over(self, empty: bool) -> None:
        source = nn.Linear(2, 2)
        copied, taken = build(lambda: nn.Linear(2, 2), empty), build(lambda: nn.Linear(2, 2), empty)
        load_into(copied, source.state_dict())
        load_into(taken, source.state_dict(), assign=True)
        with torch.no_grad():
            source.weight.zero_()
        assert copied.weight.any()
        assert not taken.weight.any()

    def test_options_for_reading_make_no_sense_for_a_mapping(self) -> None:
        with pytest.raises(TypeError, match=r"got a mapping, which is read already, and \['mmap'\]"):
            load_into(nn.Linear(1, 1), {}, mmap=False)

    @STARTS
    def test_a_checkpoint_can_be_converted_on_the_way(
        self, saved: tuple[Net, Path], tmp_path: Path, empty: bool
    ) -> None:
        net, path = saved
        torch.save({"model": {f"net.{k}": v for k, v in load_state_dict(path).items()}}, tmp_path / "other.pth")
        loaded = build(Net, empty)
        load_into(
            loaded,
            tmp_path / "other.pth",
            convert=lambda file: {name.removeprefix("net."): value for name, value in file["model"].items()},
        )
        assert equal_states(loaded, net)


class TestEverythingElse:
    @STARTS
    def test_requires_grad_stays_as_built(self, saved: tuple[Net, Path], empty: bool) -> None:
        def frozen() -> Net:
            net = Net()
            net.conv.requires_grad_(False)
            return net

        loaded = build(frozen, empty)
        load_into(loaded, saved[1])
        assert [name for name, p in loaded.named_parameters() if not p.requires_grad] == ["conv.weight"]

    @STARTS
    def test_attributes_of_parameters_stay(self, saved: tuple[Net, Path], empty: bool) -> None:
        def marked() -> Net:
            net = Net()
            net.token.no_decay = True  # type: ignore[attr-defined]
            return net

        loaded = build(marked, empty)
        load_into(loaded, saved[1])
        assert loaded.token.no_decay

    def test_an_optimizer_made_before_still_holds_the_modules_parameters(self, saved: tuple[Net, Path]) -> None:
        loaded = Net()
        optimizer = torch.optim.SGD(loaded.parameters(), 0.1)
        load_into(loaded, saved[1])
        before = loaded.head.weight.detach().clone()
        loaded(IMAGE).sum().backward()
        optimizer.step()
        assert not torch.equal(loaded.head.weight, before)

    @STARTS
    def test_training_in_place_leaves_the_file_unchanged(self, saved: tuple[Net, Path], empty: bool) -> None:
        path = saved[1]
        before = path.read_bytes()
        loaded = build(Net, empty)
        load_into(loaded, path)
        optimizer = torch.optim.SGD(loaded.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loaded.train()(IMAGE).square().sum().backward()
            optimizer.step()
        assert not torch.equal(loaded.conv.weight, saved[0].conv.weight)
        assert path.read_bytes() == before

    @STARTS
    def test_loaded_modules_copy_pickle_and_share(self, saved: tuple[Net, Path], empty: bool) -> None:
        net, path = saved
        loaded = build(Net, empty).eval()
        load_into(loaded, path)
        for twin in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded)), loaded.share_memory()):
            assert torch.equal(twin(IMAGE), net(IMAGE))
        assert loaded.conv.weight.is_shared()

    @STARTS
    def test_a_loaded_module_saves_what_it_loaded(self, saved: tuple[Net, Path], empty: bool) -> None:
        loaded = build(Net, empty)
        load_into(loaded, saved[1])
        buffer = io.BytesIO()
        torch.save(loaded.state_dict(), buffer)
        buffer.seek(0)
        again = Net()
        again.load_state_dict(torch.load(buffer, weights_only=True))
        assert equal_states(again, saved[0])

    def test_recurrent_layers_use_the_loaded_weights(self, tmp_path: Path) -> None:
        net = trained(nn.LSTM(2, 3))
        torch.save(net.state_dict(), tmp_path / "net.pth")
        x = torch.randn(4, 1, 2)
        for empty in (False, True):
            loaded = build(lambda: nn.LSTM(2, 3), empty)
            load_into(loaded, tmp_path / "net.pth")
            assert torch.equal(loaded(x)[0], net(x)[0])

    def test_lazy_modules_take_shapes_from_the_file(self, tmp_path: Path) -> None:
        net = nn.Linear(7, 2)
        torch.save(net.state_dict(), tmp_path / "net.pth")
        loaded = build(lambda: nn.LazyLinear(2), True)
        load_into(loaded, tmp_path / "net.pth")
        assert torch.equal(loaded.weight, net.weight)


class TestTies:
    @STARTS
    def test_tied_parameters_stay_one_after_loading_and_after_a_step(self, tmp_path: Path, empty: bool) -> None:
        torch.save(trained(Tied()).state_dict(), tmp_path / "net.pth")
        loaded = build(Tied, empty)
        load_into(loaded, tmp_path / "net.pth")
        assert loaded.out.weight is loaded.embed.weight
        assert len(list(loaded.parameters())) == 1
        optimizer = torch.optim.SGD(loaded.parameters(), 0.1)
        loaded.out(loaded.embed(torch.tensor([1, 2]))).sum().backward()
        optimizer.step()
        assert torch.equal(loaded.out.weight, loaded.embed.weight)

    @STARTS
    def test_one_name_of_a_tied_parameter_is_enough(self, tmp_path: Path, empty: bool) -> None:
        source = trained(Tied())
        torch.save({"embed.weight": source.embed.weight.detach()}, tmp_path / "net.pth")  # type: ignore[union-attr]
        loaded = build(Tied, empty)
        assert load_into(loaded, tmp_path / "net.pth") == LoadReport([], [], [])
        assert loaded.out.weight is loaded.embed.weight
        assert equal_states(loaded, source)

    def test_one_module_at_two_places_stays_one(self, tmp_path: Path) -> None:
        def shared() -> nn.Module:
            layer = nn.Linear(2, 2)
            return nn.ModuleDict({"a": layer, "b": layer})

        source = trained(shared())
        torch.save(source.state_dict(), tmp_path / "net.pth")
        loaded = build(shared, True)
        load_into(loaded, tmp_path / "net.pth")
        assert loaded["a"] is loaded["b"]
        assert equal_states(loaded, source)

    @STARTS
    def test_what_is_tied_in_the_file_alone_comes_apart(self, tmp_path: Path, empty: bool) -> None:
        torch.save(Tied().state_dict(), tmp_path / "net.pth")

        def untied() -> nn.Module:
            net = Tied()
            net.out = nn.Linear(3, 5, bias=False)
            return net

        loaded = build(untied, empty)
        load_into(loaded, tmp_path / "net.pth")
        kept = loaded.out.weight.detach().clone()
        with torch.no_grad():
            loaded.embed.weight.zero_()
        assert torch.equal(loaded.out.weight, kept)

    def test_slices_of_one_saved_tensor_stay_independent_when_they_overlap(self) -> None:
        flat = torch.arange(6.0)
        state = {"a": flat[:4], "b": flat[2:], "c": flat[:0]}
        loaded = nn.ParameterDict({k: torch.zeros(v.shape) for k, v in state.items()})
        load_into(loaded, state, assign=True)
        with torch.no_grad():
            loaded["a"].fill_(-1)
        assert loaded["b"].tolist() == [2.0, 3.0, 4.0, 5.0]


class TestComputedTensors:
    @STARTS
    @pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
    def test_old_weight_norm_is_ready_before_the_first_forward(self, tmp_path: Path, empty: bool) -> None:
        def normed() -> nn.Module:
            return torch.nn.utils.weight_norm(nn.Linear(3, 2))

        source = trained(normed())
        torch.save(source.state_dict(), tmp_path / "net.pth")
        loaded = build(normed, empty)
        load_into(loaded, tmp_path / "net.pth")
        x = torch.randn(4, 3)
        twin = copy.deepcopy(loaded)
        assert torch.equal(twin(x), source(x))
        assert torch.equal(loaded.weight, source.weight)

    @STARTS
    @pytest.mark.filterwarnings("ignore:.*spectral_norm.*is deprecated")
    def test_old_spectral_norm_keeps_the_loaded_vectors(self, tmp_path: Path, empty: bool) -> None:
        def normed() -> nn.Module:
            return torch.nn.utils.spectral_norm(nn.Linear(3, 2))

        source = normed().eval()
        torch.save(source.state_dict(), tmp_path / "net.pth")
        loaded = build(normed, empty).eval()
        load_into(loaded, tmp_path / "net.pth")
        x = torch.randn(4, 3)
        assert torch.equal(loaded.weight_u, source.weight_u)
        assert torch.equal(copy.deepcopy(loaded)(x), source(x))

    @STARTS
    def test_pruned_layers(self, tmp_path: Path, empty: bool) -> None:
        def pruned() -> nn.Module:
            return torch.nn.utils.prune.identity(nn.Linear(3, 2), "weight")

        source = pruned()
        source.weight_mask[0] = 0  # type: ignore[index]
        torch.save(source.state_dict(), tmp_path / "net.pth")
        loaded = build(pruned, empty)
        load_into(loaded, tmp_path / "net.pth")
        x = torch.randn(4, 3)
        assert torch.equal(loaded.weight[0], torch.zeros(3))
        assert torch.equal(loaded(x), source(x))

    @STARTS
    @pytest.mark.parametrize(
        "normed",
        [
            lambda: parametrizations.weight_norm(nn.Linear(3, 3)),
            lambda: parametrizations.spectral_norm(nn.Linear(3, 3)),
        ],
        ids=["weight_norm", "spectral_norm"],
    )
    def test_parametrizations(self, tmp_path: Path, empty: bool, normed: Any) -> None:
        source = normed().eval()
        torch.save(source.state_dict(), tmp_path / "net.pth")
        loaded = build(normed, empty).eval()
        load_into(loaded, tmp_path / "net.pth")
        x = torch.randn(4, 3)
        assert equal_states(loaded, source)
        assert torch.equal(copy.deepcopy(loaded)(x), source(x))

    def test_a_plain_tensor_computed_from_empty_parameters_is_an_error(self) -> None:
        class Doubled(nn.Linear):
            def __init__(self) -> None:
                super().__init__(2, 2)
                self.cache = {"doubled": [self.weight * 2]}

        state = Doubled().state_dict()
        with pytest.raises(CheckpointError, match="Doubled: cache stayed without values"):
            load_into(build(Doubled, True), state)


class TestMismatches:
    def test_everything_that_does_not_fit_is_in_one_message(self, saved: tuple[Net, Path]) -> None:
        state = dict(load_state_dict(saved[1]))
        del state["token"]
        state["extra.weight"] = torch.ones(2)
        state["conv.weight"] = torch.ones(4, 3, 5, 5)
        for kind in (HubError, RuntimeError):
            with pytest.raises(kind) as caught:
                load_into(Net(), state)
        message = str(caught.value)
        assert "Net does not fit the checkpoint" in message
        assert "1 missing in the checkpoint: token" in message
        assert "1 not in the module: extra.weight" in message
        assert "conv.weight (checkpoint (4, 3, 5, 5), module (4, 3, 3, 3))" in message
        assert "strict=False" in message

    @STARTS
    def test_missing_names_alone_are_an_error_too(self, saved: tuple[Net, Path], empty: bool) -> None:
        state = {name: value for name, value in load_state_dict(saved[1]).items() if name != "token"}
        with pytest.raises(CheckpointError, match=r"1 missing in the checkpoint: token\. "):
            load_into(build(Net, empty), state)

    def test_names_that_a_layers_own_way_of_loading_looks_up_in_vain_are_listed(self) -> None:
        class Scaled(nn.Module):
            scale = 2.0

            def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
                destination[f"{prefix}scale"] = self.scale

            def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
                self.scale = state_dict.pop(f"{prefix}scale")

        with pytest.raises(CheckpointError, match=r"1 missing in the checkpoint: 1\.scale\."):
            load_into(nn.Sequential(nn.Linear(1, 1), Scaled()), nn.Sequential(nn.Linear(1, 1)).state_dict())

    def test_another_number_of_classes_gets_that_remedy(self, saved: tuple[Net, Path]) -> None:
        with pytest.raises(CheckpointError, match=r"build with num_classes=3, .*num_classes=8\) to replace the head"):
            load_into(Net(classes=8), saved[1])

    def test_a_nested_checkpoint_gets_that_remedy(self, saved: tuple[Net, Path]) -> None:
        with pytest.raises(CheckpointError, match=r"one level deeper: pass convert=lambda file: file\['model'\]"):
            load_into(Net(), {"model": load_state_dict(saved[1]), "epoch": 3})

    def test_a_common_prefix_gets_that_remedy(self, saved: tuple[Net, Path]) -> None:
        state = {f"module.{name}": value for name, value in load_state_dict(saved[1]).items()}
        with pytest.raises(CheckpointError, match=r"names begin with 'module\.': remove that"):
            load_into(Net(), state)

    def test_long_lists_are_cut(self) -> None:
        state = {f"layer{i}": torch.ones(1) for i in range(200)}
        with pytest.raises(CheckpointError, match=r"200 not in the module: .* and 180 more") as caught:
            load_into(nn.Linear(1, 1), state)
        assert len(str(caught.value)) < 1000

    def test_a_value_that_is_no_tensor_is_named(self) -> None:
        with pytest.raises(CheckpointError, match="weight"):
            load_into(nn.Linear(1, 1), {"weight": "x", "bias": torch.ones(1)})

    def test_old_files_without_batch_counters_load_strictly(self, saved: tuple[Net, Path]) -> None:
        state = {k: v for k, v in load_state_dict(saved[1]).items() if "num_batches" not in k}
        for empty in (False, True):
            loaded = build(Net, empty)
            load_into(loaded, state)
            assert loaded.norm.num_batches_tracked.item() == 0


class TestPartialLoads:
    @STARTS
    def test_what_fits_is_loaded_and_the_rest_reported(self, saved: tuple[Net, Path], empty: bool) -> None:
        state = {**load_state_dict(saved[1]), "extra": torch.ones(1)}
        del state["norm.bias"]
        loaded = build(Net, empty, 8)
        report = load_into(loaded, state, strict=False)
        assert report.missing_keys == ["norm.bias"]
        assert report.unexpected_keys == ["extra"]
        assert report.misshaped_keys == ["head.bias", "head.weight"]
        assert torch.equal(loaded.conv.weight, saved[0].conv.weight)

    def test_empty_parameters_without_a_value_are_initialised_and_loaded_ones_kept(
        self, saved: tuple[Net, Path]
    ) -> None:
        state = dict(load_state_dict(saved[1]))
        del state["norm.bias"], state["head.weight"], state["head.bias"]
        loaded = build(Net, True)
        load_into(loaded, state, strict=False)
        assert torch.equal(loaded.norm.bias, torch.zeros(4))
        assert torch.equal(loaded.norm.weight, saved[0].norm.weight)
        assert torch.equal(loaded.norm.running_var, saved[0].norm.running_var)
        assert loaded.head.weight.abs().max() <= 0.5  # uniform within 1 / sqrt(4), as a linear layer's
        assert loaded.head.weight.std() > 0
        assert loaded.head.weight.requires_grad

    def test_tied_parameters_without_a_value_are_initialised_as_one(self) -> None:
        loaded = build(Tied, True)
        loaded.embed.weight.no_decay = True
        assert load_into(loaded, {}, strict=False).missing_keys == ["embed.weight", "out.weight"]
        assert loaded.out.weight is loaded.embed.weight
        assert loaded.out.weight.std() > 0
        assert loaded.out.weight.no_decay

    def test_real_parameters_without_a_value_keep_theirs(self, saved: tuple[Net, Path]) -> None:
        state = {k: v for k, v in load_state_dict(saved[1]).items() if not k.startswith("head")}
        loaded = Net()
        head = loaded.head.weight.detach().clone()
        load_into(loaded, state, strict=False)
        assert torch.equal(loaded.head.weight, head)

    def test_a_bare_parameter_has_nobody_to_initialise_it(self, saved: tuple[Net, Path]) -> None:
        state = {k: v for k, v in load_state_dict(saved[1]).items() if k != "token"}
        with pytest.raises(CheckpointError, match=r"no values for token, .*no\s+reset_parameters"):
            load_into(build(Net, True), state, strict=False)

    def test_versions_of_modules_survive_the_left_out_names(self, tmp_path: Path) -> None:
        class Versioned(nn.Linear):
            _version = 3
            seen: int | None = None

            def _load_from_state_dict(self, state: Any, prefix: str, metadata: Any, *rest: Any) -> None:
                type(self).seen = metadata.get("version")
                super()._load_from_state_dict(state, prefix, metadata, *rest)

        torch.save(Versioned(2, 2).state_dict(), tmp_path / "net.pth")
        load_into(Versioned(2, 5), tmp_path / "net.pth", strict=False)
        assert Versioned.seen == 3
