"""The kit's checks of models: a sound model passes all, and each check catches the model that is wrong its way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from flambeau.core.registry import MODELS
from flambeau.core.testing import Result, check_model
from flambeau.core.testing.model_checks import CHECKS
from flambeau.core.weights import Weights, WeightsEnum, register_model

pytestmark = pytest.mark.usefixtures("site")

META = {"recipe": "https://host.example/recipe", "_metrics": {"Toy": {"acc@1": 90.0}}, "license": "CC0-1.0"}


def preset() -> Any:
    return lambda raw: torch.full((4,), float(raw))


class Net(nn.Module):
    """Sound in every respect."""

    def __init__(self, num_classes: int = 3, in_channels: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(in_channels, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(6, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(self.norm(self.first(x)).relu()))


class Net_Weights(WeightsEnum):
    TOY = Weights("https://host.example/net-01234567.pt", preset, META, size=100)
    DEFAULT = TOY


def net(*, weights: Net_Weights | None = None, num_classes: int = 3, in_channels: int = 4) -> Net:
    return Net(num_classes, in_channels)


class Samples:
    """Hooks that suit `Net` and its broken relatives."""

    def __init__(self, **more: Any) -> None:
        self.__dict__.update(more)

    def example_inputs(self, name: str, batch: int) -> tuple[Tensor]:
        return (torch.randn(batch, 4),)

    def raw_input(self, name: str) -> float:
        return 1.0

    def recorded_state(self, name: str) -> dict[str, tuple[int, ...]]:
        return {key: tuple(value.shape) for key, value in Net().state_dict().items()}


def checked(builder: Any, level: Any = "default", **more: Any) -> dict[str, Result]:
    register_model("net", task="classification")(builder)
    entry = next(entry for entry in MODELS.entries() if entry.name == "net")
    return {result.check: result for result in check_model(entry.id, samples=Samples(**more), level=level)}


def test_a_sound_model_passes_every_check() -> None:
    results = checked(net, level="full")

    assert {name: str(result) for name, result in results.items() if result.status != "passed"} == {}
    assert len(results) == len(CHECKS.checks)


def test_compiling_and_exporting_are_asked_at_level_full_alone() -> None:
    assert {"compiles", "exports"} & set(checked(net)) == set()


class WithMemory(Net):
    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_parameters"]["extra"] = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.extra


class Renamed(Net):
    def __init__(self) -> None:
        super().__init__()
        self.head = self.last
        del self.last

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.first(x)).relu())


class Counting(Net):
    """Names a layer after how many were built before."""

    built = 0

    def __init__(self) -> None:
        super().__init__()
        Counting.built += 1
        self.add_module(f"layer{Counting.built}", nn.Linear(1, 1))


class Noisy(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.randn(3)


class Stubborn(Net):
    def train(self, mode: bool = True) -> Stubborn:
        super().train(mode)
        self.drop.train(True)
        return self


class BornInEval(Net):
    def __init__(self) -> None:
        super().__init__()
        self.eval()


class NeedsTwo(Net):
    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 1:
            raise ValueError("needs two rows")
        return super().forward(x)


class NeedsSome(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x.max()


class MixesBatch(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) - super().forward(x).sum(0)


class Refines(Net):
    """Answers with a list of improving batches."""

    def forward(self, x: Tensor) -> list[Tensor]:
        first = super().forward(x)
        return [first * step for step in range(1, 6)]


class Remembers(Net):
    """Answers with the states of three layers as well, which are as many as the largest batch of the kit."""

    def forward(self, x: Tensor) -> tuple[Tensor, list[list[Tensor]]]:
        first = super().forward(x)
        return first, [[first * layer, first + layer] for layer in range(3)]


class RefinesMixing(Refines):
    def forward(self, x: Tensor) -> list[Tensor]:
        return [step - step.sum(0) for step in super().forward(x)]


class RoundsByBatch(Net):
    """The same number for any batch, but for the last bits of a large one that comes and goes."""

    def forward(self, x: Tensor) -> Tensor:
        large = 1e5 * len(x)
        return (super().forward(x) + large) - large


class DropsRows(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:1]


class KeepsTensor(Net):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(3)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.scale


class AlwaysFloat32(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


class HidesState(Net):
    """Its outputs depend on a draw at construction that the state does not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = float(torch.rand(())) if not self.last.weight.is_meta else 0.0

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.shift


class HoldsLambda(Net):
    def __init__(self) -> None:
        super().__init__()
        self.activation = lambda x: x


class Detached(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.first(x)).relu().detach())


class Infinite(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.where(self.last.bias == self.last.bias, self.last.bias * 0, 0).sqrt()


class BranchesOnData(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if float(x.sum()) > 0 else super().forward(x) * 1


@pytest.mark.parametrize(
    ("module", "check", "level", "finding"),
    [
        (WithMemory, "builds-on-meta", "default", "extra"),
        (Renamed, "state-as-recorded", "default", "missing last.weight"),
        (Counting, "builds-alike-twice", "default", "layer1.weight"),
        (Noisy, "eval-deterministic", "default", "second call in eval mode"),
        (Stubborn, "train-eval-switch", "default", "True for drop"),
        (BornInEval, "train-eval-switch", "default", "as built"),
        (NeedsTwo, "batch-sizes", "default", "batch of 1"),
        (NeedsSome, "batch-sizes", "default", "batch of 0"),
        (MixesBatch, "batch-sizes", "default", "first of three"),
        (RefinesMixing, "batch-sizes", "default", "first of three"),
        (DropsRows, "batch-sizes", "default", "shape (1, 3)"),
        (KeepsTensor, "moves-dtype-and-device", "default", "the model.scale"),
        (AlwaysFloat32, "moves-dtype-and-device", "default", "torch.float32 for float64"),
        (HidesState, "state-dict-round-trip", "default", "after loading"),
        (HoldsLambda, "pickles", "default", "lambda"),
        (Detached, "gradients-reach-parameters", "default", "reaches first.weight"),
        (Infinite, "gradients-reach-parameters", "default", "not finite for last.bias"),
        (BranchesOnData, "compiles", "full", "data-dependent"),
        (BranchesOnData, "exports", "full", "data-dependent"),
    ],
)
def test_a_faulty_model_is_caught(module: type[Net], check: str, level: Any, finding: str) -> None:
    def build(*, weights: Net_Weights | None = None) -> nn.Module:
        return module()

    result = checked(build, level=level)[check]

    assert result.status == "failed", result
    assert finding in result.message


def test_rounding_that_depends_on_the_batch_is_no_fault() -> None:
    def build(*, weights: Net_Weights | None = None) -> nn.Module:
        return RoundsByBatch()

    assert checked(build)["batch-sizes"].status == "passed"


@pytest.mark.parametrize("module", [Refines, Remembers])
def test_a_model_may_answer_with_lists_of_batches(module: type[Net]) -> None:
    def build(*, weights: Net_Weights | None = None) -> nn.Module:
        return module()

    assert checked(build)["batch-sizes"].status == "passed"


def test_a_wrong_shape_in_the_state_is_caught() -> None:
    recorded = {key: tuple(value.shape) for key, value in Net(num_classes=9).state_dict().items()}

    result = checked(net, recorded_state=lambda name: recorded)["state-as-recorded"]

    assert "(3, 6), recorded is (9, 6)" in result.message


@pytest.mark.parametrize("option", ["num_classes", "in_channels"])
def test_an_option_that_changes_nothing_is_caught(option: str) -> None:
    def build(*, weights: Net_Weights | None = None, **options: int) -> Net:
        options.pop(option, None)
        return Net(**options)

    result = checked(build)[option.replace("_", "-")]

    assert result.status == "failed"
    assert "changes no parameter" in result.message


def test_an_option_that_means_something_else_is_caught() -> None:
    def build(*, weights: Net_Weights | None = None, num_classes: int = 3) -> Net:
        return Net(num_classes + 1)

    assert checked(build)["num-classes"].status == "failed"


def test_an_option_the_builder_does_not_take_does_not_apply() -> None:
    def build(*, weights: Net_Weights | None = None) -> Net:
        return Net()

    assert checked(build)["num-classes"].status == "not-applicable"


@pytest.mark.parametrize(
    ("facts", "lacking"),
    [
        ({"meta": {**META, "recipe": ""}}, "recipe"),
        ({"meta": {**META, "_metrics": {}}}, "metrics"),
        ({"meta": {**META, "license": None}}, "licence"),
        ({"size": None}, "size"),
        ({"url": "https://host.example/net.pt"}, "checksum"),
    ],
)
def test_incomplete_weights_metadata_is_caught(facts: dict[str, Any], lacking: str) -> None:
    complete = {"url": "https://host.example/net-01234567.pt", "transforms": preset, "meta": META, "size": 100}
    enum = WeightsEnum("Partial_Weights", {"TOY": Weights(**complete | facts)})

    def build(*, weights: Any = None) -> Net:
        return Net()

    build.__annotations__["weights"] = enum
    result = checked(build)["weights-metadata"]

    assert result.status == "failed", result
    assert lacking in result.message


def test_transforms_that_do_not_fit_are_caught() -> None:
    def narrow(*, weights: Net_Weights | None = None) -> nn.Module:
        return nn.Sequential(nn.Linear(5, 2))

    result = checked(narrow)["transforms-fit-model"]

    assert result.status == "failed"
    assert "(1, 4)" in result.message


def test_a_builder_that_returns_no_module_is_caught() -> None:
    def build(*, weights: Net_Weights | None = None) -> object:
        return object()

    assert "expected a torch.nn.Module" in checked(build)["builds-on-meta"].message


class Picture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 1)
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.conv1(x).mean((2, 3)))


def picture() -> Picture:
    return Picture()


@pytest.mark.parametrize(("layers", "status"), [({"stem": "conv1"}, "passed"), ({}, "not-applicable")])
def test_a_declared_stem_stands_in_for_the_builder_s_option(layers: dict[str, str], status: str) -> None:
    register_model("picture", **layers)(picture)
    samples = SimpleNamespace(example_inputs=lambda name, batch: (torch.zeros(batch, 3, 2, 2),))

    result = {result.check: result for result in check_model("picture", samples=samples)}["in-channels"]

    assert result.status == status, result


def test_without_example_inputs_one_check_fails_and_says_so() -> None:
    register_model("net")(net)

    results = {result.check: result for result in check_model("net", samples=SimpleNamespace())}

    assert results["example-inputs"].status == "failed"
    assert results["batch-sizes"].status == "not-applicable"
    assert results["builds-on-meta"].status == "passed"


def test_a_loss_stands_in_where_the_output_is_not_differentiable() -> None:
    class Labels(Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if self.training else super().forward(x).argmax(-1)

    def build(*, weights: Net_Weights | None = None) -> nn.Module:
        return Labels()

    def loss(name: str, model: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        return model(*inputs).sum()

    assert checked(build, training_loss=loss)["gradients-reach-parameters"].status == "passed"


def test_a_large_model_is_computed_at_level_full_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flambeau.core.testing.model_subject.LARGE", 10)

    results = checked(net)

    assert results["eval-deterministic"].status == "not-applicable"
    assert "level full" in results["eval-deterministic"].message
    assert results["pickles"].status == "passed"
    assert checked(net, level="full")["eval-deterministic"].status == "passed"


def test_weights_of_parts_are_not_asked_for() -> None:
    seen = {}

    def build(*, weights: Net_Weights | None = None, weights_backbone: str | None = "DEFAULT") -> Net:
        seen["backbone"] = weights_backbone
        return Net()

    checked(build)

    assert seen["backbone"] is None


class Detector(nn.Module):
    """Three boxes for each picture, as many as there are pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 4)

    def forward(self, pictures: list[Tensor]) -> list[dict[str, Tensor]]:
        return [{"boxes": self.head(picture), "count": torch.tensor(3)} for picture in pictures]


def test_a_model_of_lists_and_mappings_is_judged_sample_by_sample() -> None:
    def build() -> Detector:
        return Detector()

    def pictures(name: str, batch: int) -> tuple[list[Tensor]]:
        return ([torch.rand(3, 2, generator=torch.Generator().manual_seed(index)) for index in range(batch)],)

    results = checked(build, example_inputs=pictures, recorded_state=lambda name: None)

    assert {n: str(r) for n, r in results.items() if not r.ok} == {}
    assert results["batch-sizes"].status == results["gradients-reach-parameters"].status == "passed"


def test_a_builder_gets_what_the_plugin_says_it_needs() -> None:
    def build(*, depth: int) -> Net:
        return Net(num_classes=depth)

    results = checked(build, model_config=lambda name: {"depth": 2}, recorded_state=lambda name: None)

    assert results["eval-deterministic"].status == "passed", results["eval-deterministic"]
    assert results["state-as-recorded"].status == "not-applicable"


def test_a_model_without_weights_needs_no_metadata() -> None:
    def build() -> Net:
        return Net()

    results = checked(build)

    assert results["weights-metadata"].status == "not-applicable"
    assert results["transforms-fit-model"].status == "not-applicable"
