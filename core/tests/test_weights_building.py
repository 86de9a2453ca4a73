"""Building with weights: no initialisation, no copy, and the result is what plain building and loading would give."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from flambeau.core.errors import CheckpointError, MissingCheckpointError
from flambeau.core.weights import build_with_weights, empty_parameters
from flambeau.core.weights.construction import kept_outside
from flambeau.core.weights.pretrained import architecture_only


class Small(nn.Module):
    def __init__(self, inputs: int = 3, classes: int = 2, **factory: Any) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, 4, **factory)
        self.norm = nn.BatchNorm1d(4, **factory)
        self.second = nn.Linear(4, classes, **factory)
        self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.norm(self.first(x)).relu() * self.scale)


class RunsItself(nn.Module):
    """Runs a forward pass in its constructor to learn a size, as some detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(self.body(torch.zeros(1, 3)).shape[1], 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class ReadsValues(Small):
    """Decides by a drawn value."""

    def __init__(self) -> None:
        super().__init__()
        self.positive = bool(self.first.weight.sum() > -1e9)


class KeepsAList(Small):
    """Keeps its parameters in a plain list as well."""

    def __init__(self) -> None:
        super().__init__()
        weight = nn.Parameter(torch.ones(3))
        self.extra, self.all = weight, [weight]

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * self.all[0])


class ListsThemAfterwards(Small):
    """Lists the parameters that are registered already."""

    def __init__(self) -> None:
        super().__init__()
        self.all = list(self.parameters())

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.all[0].sum()


class ToleratesGaps(Small):
    """Loads strictly although its token is not in the file, as modules do that outlived their checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.full((2,), 3.0))

    def _save_to_state_dict(self, state: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(state, prefix, keep_vars)
        del state[prefix + "token"]

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        state.setdefault(prefix + "token", self.token)
        super()._load_from_state_dict(state, prefix, *rest)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.token


class ComputesABuffer(Small):
    """Has a buffer that no checkpoint brings and that follows from a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("start", self.first.weight.detach().clone(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.start.sum()


def orthogonal() -> nn.Module:
    return nn.Sequential(parametrizations.orthogonal(nn.Linear(3, 3)), nn.ReLU())


KINDS: dict[str, Callable[[], nn.Module]] = {
    "small": Small,
    "runs itself": RunsItself,
    "reads values": ReadsValues,
    "keeps a list": KeepsAList,
    "lists them afterwards": ListsThemAfterwards,
    "tolerates gaps": ToleratesGaps,
    "computes a buffer": ComputesABuffer,
    "orthogonal": orthogonal,
}
# The ways that do not work for a kind of constructor, in the order in which they are tried.
FAILURES = {
    "small": [],
    "runs itself": ["empty parameters"],
    "reads values": ["empty parameters", "the meta device"],
    "keeps a list": ["empty parameters", "the meta device"],
    "lists them afterwards": ["empty parameters", "the meta device"],
    "tolerates gaps": ["empty parameters", "the meta device"],
    "computes a buffer": ["empty parameters", "the meta device"],
    "orthogonal": ["empty parameters", "the meta device"],
}


def plainly(kind: Callable[[], nn.Module], path: Path) -> nn.Module:
    module = kind()
    module.load_state_dict(torch.load(path, weights_only=True))
    return module


@pytest.fixture
def path(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    torch.save(Small().state_dict(), tmp_path / "small.pth")
    return tmp_path / "small.pth"


class TestTheWaysOfBuilding:
    @pytest.mark.parametrize("name", KINDS)
    def test_every_constructor_gets_the_result_of_plain_building(
        self, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        kind, path = KINDS[name], tmp_path / "net.pth"
        torch.save(kind().state_dict(), path)
        x = torch.randn(5, 3)
        torch.manual_seed(3)
        expected = plainly(kind, path).eval()
        torch.manual_seed(3)
        with caplog.at_level(logging.DEBUG, "flambeau.core.weights"):
            built = build_with_weights(kind, path).eval()
        assert torch.equal(built(x), expected(x))
        assert torch.equal(copy.deepcopy(built)(x), expected(x))
        assert [r.args[0] for r in caplog.records if r.msg.startswith("Building with")] == FAILURES[name]

    def test_an_empty_build_draws_nothing_and_a_repeated_one_draws_as_if_it_were_the_first(self, path: Path) -> None:
        torch.manual_seed(3)
        before = torch.get_rng_state()
        build_with_weights(Small, path)
        assert torch.equal(torch.get_rng_state(), before)
        build_with_weights(ReadsValues, path)
        after = torch.get_rng_state()
        torch.set_rng_state(before)
        ReadsValues()
        assert torch.equal(torch.get_rng_state(), after)

    def test_plain_building_can_be_asked_for(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG, "flambeau.core.weights"):
            built = build_with_weights(ReadsValues, path, instant=False)
        assert not caplog.records
        assert not kept_outside()
        assert torch.equal(built.first.weight, plainly(Small, path).first.weight)  # type: ignore[arg-type]

    def test_torchs_compiler_is_not_imported(self, path: Path) -> None:
        import subprocess
        import sys

        program = (
            "import sys, torch\n"
            "from torch import nn\n"
            "from flambeau.core.weights import build_with_weights\n"
            "def net():\n"
            "    layer = nn.Linear(3, 2)\n"
            "    nn.init.normal_(layer.bias); nn.init.uniform_(layer.bias); nn.init.constant_(layer.bias, 1)\n"
            "    for fill in (nn.init.kaiming_normal_, nn.init.trunc_normal_, nn.init.xavier_uniform_):\n"
            "        fill(layer.weight)\n"
            "    layer.weight.data.normal_(0, 1)\n"
            "    return layer\n"
            "torch.save(nn.Linear(3, 2).state_dict(), sys.argv[1])\n"
            "build_with_weights(net, sys.argv[1])\n"
            "sys.exit('torch._dynamo' in sys.modules)\n"
        )
        code = [sys.executable, "-c", program, str(path.with_name("linear.pth"))]
        subprocess.run(code, check=True)

    def test_an_error_in_the_constructor_is_the_one_plain_building_raises(self, path: Path) -> None:
        calls = []

        def wrong() -> nn.Module:
            calls.append(1)
            raise TypeError("no such layer")

        with pytest.raises(TypeError, match="no such layer") as caught:
            build_with_weights(wrong, path)
        assert caught.value.__context__ is None
        assert len(calls) == 3

    def test_an_error_of_another_kind_is_raised_at_once(self, path: Path) -> None:
        calls = []

        def wrong() -> nn.Module:
            calls.append(1)
            raise LookupError("no such option")

        with pytest.raises(LookupError):
            build_with_weights(wrong, path)
        assert calls == [1]

    def test_weights_that_do_not_fit_are_reported_once(self, path: Path) -> None:
        calls = []

        def counted(**config: Any) -> nn.Module:
            calls.append(1)
            return Small(**config)

        with pytest.raises(CheckpointError, match="num_classes=2"):
            build_with_weights(counted, path, classes=7)
        assert calls == [1]


class TestArguments:
    def test_without_weights_the_builder_is_just_called(self) -> None:
        built = build_with_weights(Small, None, 5, classes=7, progress=False)
        assert built.first.weight.shape == (4, 5)
        assert built.second.weight.shape == (7, 4)
        assert not built.first.weight.is_meta

    def test_positions_and_keywords_reach_the_builder(self, tmp_path: Path) -> None:
        torch.save(Small(5, 7).state_dict(), tmp_path / "net.pth")
        assert build_with_weights(Small, tmp_path / "net.pth", 5, classes=7).second.weight.shape == (7, 4)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_dtype_is_that_of_the_result(self, path: Path, dtype: torch.dtype) -> None:
        for weights in (None, path):
            built = build_with_weights(Small, weights, dtype=dtype)
            assert {t.dtype for t in (*built.parameters(), built.scale, built.norm.running_mean)} == {dtype}
            assert built.norm.num_batches_tracked.dtype == torch.int64  # type: ignore[union-attr]

    @pytest.mark.parametrize(("theirs", "ours"), [(torch.half, torch.float), (torch.float, torch.half)])
    def test_the_builders_dtype_wins_over_the_files(
        self, tmp_path: Path, theirs: torch.dtype, ours: torch.dtype
    ) -> None:
        torch.save(Small().to(theirs).state_dict(), tmp_path / "net.pth")
        built = build_with_weights(lambda: Small(dtype=ours), tmp_path / "net.pth")
        assert {p.dtype for p in built.parameters()} == {ours}

    def test_device_moves_the_whole_module(self, path: Path) -> None:
        built = build_with_weights(Small, path, device="meta")
        assert all(t.is_meta for t in (*built.parameters(), *built.buffers()))

    @pytest.mark.gpu
    def test_tensors_go_where_the_caller_or_the_context_says(self, path: Path) -> None:
        if not torch.cuda.is_available():
            pytest.skip("needs CUDA")
        with torch.device("cuda"):
            by_context = build_with_weights(Small, path)
        by_argument = build_with_weights(Small, path, device="cuda")
        by_builder = build_with_weights(lambda: Small(device="cuda"), path)
        for module in (by_context, by_argument, by_builder):
            assert {p.device.type for p in module.parameters()} == {"cuda"}
        assert {b.device.type for b in by_argument.buffers()} == {"cuda"}

    def test_partial_loads_start_the_rest_from_new_values_and_say_so(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "flambeau.core.weights"):
            built = build_with_weights(Small, path, strict=False, classes=7)
        assert torch.equal(built.first.weight, plainly(Small, path).first.weight)  # type: ignore[arg-type]
        assert built.second.weight.std() > 0
        assert "second.bias, second.weight" in caplog.text or "second.weight, second.bias" in caplog.text

    def test_partial_loads_of_what_cannot_be_initialised_alone_are_built_plainly(self, path: Path) -> None:
        class WithToken(Small):
            def __init__(self) -> None:
                super().__init__()
                self.token = nn.Parameter(torch.full((2,), 3.0))

        assert build_with_weights(WithToken, path, strict=False).token.tolist() == [3.0, 3.0]

    def test_a_checkpoint_can_be_converted_on_the_way(self, path: Path, tmp_path: Path) -> None:
        torch.save({"model": torch.load(path)}, tmp_path / "nested.pth")
        built = build_with_weights(Small, tmp_path / "nested.pth", convert=lambda file: file["model"])
        assert torch.equal(built.first.weight, plainly(Small, path).first.weight)  # type: ignore[arg-type]

    def test_a_missing_file_is_told_before_anything_is_built(self, tmp_path: Path) -> None:
        with pytest.raises(MissingCheckpointError):
            build_with_weights(lambda: pytest.fail("the model was built"), tmp_path / "absent.pth")

    def test_mode_of_the_builder_stays(self, path: Path) -> None:
        assert not build_with_weights(lambda: Small().eval(), path).training


class TestUse:
    def test_compiled_and_exported_models_give_the_same_answers(self, path: Path) -> None:
        built, x = build_with_weights(Small, path).eval(), torch.randn(4, 3)
        expected = plainly(Small, path).eval()(x)
        assert torch.equal(torch.compile(built, backend="eager", fullgraph=True)(x), expected)
        assert torch.equal(torch.export.export(built, (x,)).module()(x), expected)

    def test_parts_with_weights_of_their_own_keep_them_when_the_whole_has_none(self, path: Path) -> None:
        def whole() -> nn.Module:
            return nn.Sequential(build_with_weights(Small, path), nn.Linear(2, 2))

        built = build_with_weights(whole, None)
        assert torch.equal(built[0].first.weight, plainly(Small, path).first.weight)  # type: ignore[index,arg-type]

    def test_parts_with_weights_of_their_own_take_the_wholes_instead(self, path: Path, tmp_path: Path) -> None:
        def whole() -> nn.Module:
            return nn.Sequential(build_with_weights(Small, path), nn.Linear(2, 2))

        source = nn.Sequential(Small(), nn.Linear(2, 2))
        torch.save(source.state_dict(), tmp_path / "whole.pth")
        built = build_with_weights(whole, tmp_path / "whole.pth")
        assert torch.equal(built[0].first.weight, source[0].first.weight)  # type: ignore[index]
        assert torch.equal(built[1].weight, source[1].weight)  # type: ignore[index]

    @pytest.mark.filterwarnings("ignore:.*quantize", "ignore:TypedStorage")
    def test_quantized_layers_whose_weights_are_no_parameters(self, tmp_path: Path) -> None:
        from torch.ao.nn.quantized import dynamic

        def quantized() -> nn.Module:
            return nn.Sequential(dynamic.Linear(3, 2))

        source, x = quantized(), torch.randn(4, 3)
        packed = torch.quantize_per_tensor(torch.randn(2, 3), 0.1, 0, torch.qint8)
        source[0].set_weight_bias(packed, torch.ones(2))  # type: ignore[index,operator]
        torch.save(source.state_dict(), tmp_path / "net.pth")
        assert torch.equal(build_with_weights(quantized, tmp_path / "net.pth")(x), source(x))


class TestEmptyParameters:
    def test_parameters_have_everything_but_memory(self) -> None:
        def kind() -> nn.Module:
            layer = nn.Conv2d(3, 4, 3, dtype=torch.half).to(memory_format=torch.channels_last)
            layer.bias.requires_grad_(False)  # type: ignore[union-attr]
            return layer

        real = kind()
        with empty_parameters():
            empty = kind()
        for name, parameter in empty.named_parameters():
            twin = real.get_parameter(name)
            assert parameter.is_meta
            assert type(parameter) is nn.Parameter
            assert (parameter.shape, parameter.dtype, parameter.requires_grad) == (
                twin.shape,
                twin.dtype,
                twin.requires_grad,
            )
        assert (
            empty.weight.stride() == nn.Conv2d(3, 4, 3).weight.stride() or empty.weight.stride() == real.weight.stride()
        )

    def test_buffers_and_tensors_are_real(self) -> None:
        with empty_parameters():
            module = Small()
            loose = torch.ones(2) + torch.randn(2)
        assert not any(buffer.is_meta for buffer in module.buffers())
        assert not loose.is_meta

    def test_outside_nothing_has_changed(self) -> None:
        before = nn.Module.register_parameter
        with empty_parameters():
            pass
        assert not nn.Linear(1, 1).weight.is_meta
        assert nn.Module.register_parameter is before

    def test_an_error_inside_leaves_nothing_behind(self) -> None:
        with pytest.raises(ZeroDivisionError), empty_parameters():
            raise ZeroDivisionError
        assert not nn.Linear(1, 1).weight.is_meta
        assert torch.rand(4, device="meta").uniform_().is_meta

    def test_it_nests(self) -> None:
        with empty_parameters():
            with empty_parameters():
                pass
            assert nn.Linear(1, 1).weight.is_meta

    def test_one_parameter_registered_under_two_names_stays_one(self) -> None:
        with empty_parameters():
            module = nn.Module()
            parameter = nn.Parameter(torch.ones(2))
            module.a = parameter
            module.b = parameter
        assert module.a is module.b

    def test_parameters_of_other_classes_stay_as_they_are(self) -> None:
        class Special(nn.Parameter):
            pass

        with empty_parameters():
            module = nn.Module()
            module.special = Special(torch.ones(2))
            lazy = nn.LazyLinear(2)
        assert type(module.special) is Special
        assert module.special.tolist() == [1, 1]
        assert isinstance(lazy.weight, nn.UninitializedParameter)

    def test_memory_of_replaced_parameters_is_freed_at_once(self) -> None:
        with empty_parameters():
            nn.Linear(100, 100)
            assert not kept_outside()

    def test_other_threads_build_real_modules_meanwhile(self) -> None:
        inside, done = threading.Event(), threading.Event()
        seen: list[bool] = []

        def other() -> None:
            inside.wait(30)
            seen.append(nn.Linear(2, 2).weight.is_meta)
            with empty_parameters():
                seen.append(nn.Linear(2, 2).weight.is_meta)
            seen.append(nn.Linear(2, 2).weight.is_meta)
            done.set()

        thread = threading.Thread(target=other)
        thread.start()
        with empty_parameters():
            inside.set()
            assert done.wait(30)
            seen.append(nn.Linear(2, 2).weight.is_meta)
        thread.join()
        assert seen == [False, True, False, True]

    def test_many_threads_build_with_weights_at_the_same_time(self, path: Path) -> None:
        expected = plainly(Small, path).eval()
        x = torch.randn(3, 3)
        wrong: list[object] = []
        start = threading.Barrier(6)

        def work(index: int) -> None:
            start.wait(30)
            for _ in range(10):
                if index % 2:
                    if any(p.is_meta for p in Small().parameters()):
                        wrong.append("a plain model is empty")
                elif not torch.equal(build_with_weights(Small, path).eval()(x), expected(x)):
                    wrong.append("a loaded model differs")

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wrong == []


@st.composite
def networks(draw: st.DrawFn) -> Callable[[], nn.Module]:
    """Stacks of layers of any kind, some of them used twice or with tied weights."""
    layers = draw(
        st.lists(st.sampled_from(["linear", "norm", "attention", "conv", "tied", "twice"]), min_size=1, max_size=5)
    )
    width = draw(st.sampled_from([2, 4]))

    def parts() -> Iterator[nn.Module]:
        shared = nn.Linear(width, width)
        for layer in layers:
            if layer == "linear":
                yield nn.Linear(width, width)
            elif layer == "norm":
                yield nn.LayerNorm(width)
            elif layer == "attention":
                yield nn.TransformerEncoderLayer(width, 1, 2 * width, 0.0, batch_first=True)
            elif layer == "conv":
                yield nn.Sequential(nn.Conv1d(5, 5, 1), nn.BatchNorm1d(5))
            elif layer == "tied":
                tied = nn.Linear(width, width)
                tied.weight = shared.weight
                yield tied
            else:
                yield shared

    return lambda: nn.Sequential(*parts())


@settings(max_examples=30, deadline=None)
@given(networks(), st.integers(0, 2**31))
def test_any_network_is_what_plain_building_gives(
    tmp_path_factory: pytest.TempPathFactory, kind: Callable[[], nn.Module], seed: int
) -> None:
    path = tmp_path_factory.mktemp("net") / "net.pth"
    torch.manual_seed(seed)
    torch.save(kind().state_dict(), path)
    expected, built = plainly(kind, path), build_with_weights(kind, path)
    ours, theirs = built.state_dict(), expected.state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert [name for name, _ in built.named_parameters()] == [name for name, _ in expected.named_parameters()]


def test_an_architecture_is_built_without_the_file_that_its_weights_name() -> None:
    with architecture_only():
        empty = build_with_weights(Small, "https://127.0.0.1:9/absent.pth", inputs=5)

    assert (empty.first.weight.is_meta, tuple(empty.first.weight.shape)) == (True, (4, 5))
    with pytest.raises(MissingCheckpointError):
        build_with_weights(Small, "absent.pth")
