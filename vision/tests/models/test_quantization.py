"""Models in 8-bit integers: what is published loads, and behaves as what was saved."""

import copy
import hashlib
import io
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch
from torch.ao import quantization as ao

from flambeau.core.errors import CheckpointError
from flambeau.core.testing.server import FileServer
from flambeau.vision import models
from flambeau.vision.models import ResNet18_Weights, quantization

NAMES = models.list_models(include="quantized_*")
# Builder -> a member, and options that keep the making of its checkpoint short.
PUBLISHED = {
    "resnet18": ("ResNet18_QuantizedWeights.IMAGENET1K_FBGEMM_V1", {}),
    "resnet50": ("ResNet50_QuantizedWeights.IMAGENET1K_FBGEMM_V2", {}),
    "shufflenet_v2_x0_5": ("ShuffleNet_V2_X0_5_QuantizedWeights.IMAGENET1K_FBGEMM_V1", {}),
    "mobilenet_v2": ("MobileNet_V2_QuantizedWeights.IMAGENET1K_QNNPACK_V1", {}),
    "mobilenet_v3_large": ("MobileNet_V3_Large_QuantizedWeights.IMAGENET1K_QNNPACK_V1", {}),
    "googlenet": ("GoogLeNet_QuantizedWeights.IMAGENET1K_FBGEMM_V1", {"init_weights": False}),
    "inception_v3": (
        "Inception_V3_QuantizedWeights.IMAGENET1K_FBGEMM_V1",
        {"init_weights": False, "aux_logits": False},
    ),
}
SIZES = {"inception_v3": 96}
pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.ao.quantization is deprecated", "ignore:torch.quantize_per_tensor, torch.quantize_per_channel"
)


def pictures(name, count=2):
    size = SIZES.get(name, 64)
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0))


def member_of(name):
    return models.get_weight(PUBLISHED[name][0])


@pytest.fixture(autouse=True)
def same_engine():
    """No test, and nothing that is tested, may leave torch with another engine."""
    before = torch.backends.quantized.engine
    yield
    assert torch.backends.quantized.engine == before


def original(name):
    """(what upstream would publish, the int8 model itself): quantized here by torch alone."""
    torch.manual_seed(0)
    backend = member_of(name).meta["backend"]
    model = getattr(quantization, name)(**PUBLISHED[name][1])
    before, torch.backends.quantized.engine = torch.backends.quantized.engine, backend
    try:
        if name == "mobilenet_v3_large":  # is published as its training left it
            model.train().fuse_model(is_qat=True)
            model.qconfig = ao.get_default_qat_qconfig(backend)
            ao.prepare_qat(model, inplace=True)
            model(pictures(name, 4))
            saved = copy.deepcopy(model.state_dict())
        else:
            model.eval().fuse_model()
            model.qconfig = ao.QConfig(
                activation=ao.default_observer,
                weight=ao.default_weight_observer if backend == "qnnpack" else ao.default_per_channel_weight_observer,
            )
            ao.prepare(model, inplace=True)
            with torch.no_grad():
                model(pictures(name))
            saved = None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="must run observer")  # of heads that only training runs
            ao.convert(model.eval(), inplace=True)
    finally:
        torch.backends.quantized.engine = before
    return (model.state_dict() if saved is None else saved), model


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Serve a state dict under the published name of a member; the digest is made known as its owner would."""
    servers = []

    def serve(member, state, **save_options):
        buffer = io.BytesIO()
        torch.save(state, buffer, **save_options)
        content = buffer.getvalue()
        path = member.url.removeprefix("https://download.pytorch.org/models/")
        monkeypatch.setitem(vars(member.value), "sha256", hashlib.sha256(content).hexdigest())
        monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / str(len(servers))))
        server = FileServer({path: content})
        servers.append(server.__enter__())
        monkeypatch.setenv("FLAMBEAU_MIRRORS", f"https://download.pytorch.org/models/={server.url('')}")

    yield serve
    for server in servers:
        server.__exit__(None, None, None)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_checkpoint_loads_strictly_and_gives_the_outputs_of_the_model_that_was_saved(name, publish):
    state, saved = original(name)
    publish(member_of(name), state)
    model = getattr(quantization, name)(weights="DEFAULT", quantize=True)
    if hasattr(model, "transform_input"):
        assert model.transform_input
        saved.transform_input = True
    x = pictures(name)
    with torch.inference_mode():
        assert torch.equal(model(x), saved(x))
    assert not model.training


def test_a_checkpoint_of_the_first_file_format_loads(publish):
    state, saved = original("resnet18")
    publish(member_of("resnet18"), state, _use_new_zipfile_serialization=False)
    model = quantization.resnet18(weights="DEFAULT", quantize=True)
    x = pictures("resnet18")
    assert torch.equal(model(x), saved(x))


def test_auxiliary_heads_of_a_checkpoint_are_left_out_unless_asked_for(publish):
    state, _ = original("googlenet")
    assert any(key.startswith("aux1.") for key in state)
    publish(member_of("googlenet"), state)
    assert quantization.googlenet(weights="DEFAULT", quantize=True).aux1 is None
    with pytest.warns(UserWarning, match="auxiliary heads of these GoogLeNet weights are not trained"):
        model = quantization.googlenet(weights="DEFAULT", quantize=True, aux_logits=True)
    assert model.aux1 is not None


def test_gates_of_checkpoints_before_their_output_was_observed_load(publish):
    state, _ = original("mobilenet_v3_large")
    gates = [key for key in state if ".scale_activation." in key]
    assert gates
    for key in gates:
        del state[key]
    for entry in state._metadata.values():
        if entry.get("version") == 2:
            entry["version"] = 1
    publish(member_of("mobilenet_v3_large"), state)
    model = quantization.mobilenet_v3_large(weights="DEFAULT", quantize=True)
    assert model(pictures("mobilenet_v3_large")).isfinite().all()


def test_a_checkpoint_that_lacks_a_range_is_refused(publish):
    state, _ = original("resnet18")
    del state["layer1.0.add_relu.scale"]
    publish(member_of("resnet18"), state)
    with pytest.raises(CheckpointError, match=r"layer1\.0\.add_relu\.scale"):
        quantization.resnet18(weights="DEFAULT", quantize=True)


def test_every_way_to_name_int8_weights_gives_the_int8_model(publish):
    state, saved = original("shufflenet_v2_x0_5")
    member = member_of("shufflenet_v2_x0_5")
    publish(member, state)
    x = pictures("shufflenet_v2_x0_5")
    expected = saved(x)
    for model in (
        quantization.shufflenet_v2_x0_5(weights=member, quantize=True),
        quantization.shufflenet_v2_x0_5(weights=member),
        models.get_model("quantized_shufflenet_v2_x0_5", weights="DEFAULT", quantize=True),
        models.get_model("quantized_shufflenet_v2_x0_5", weights=member),
        member.load(),
    ):
        assert torch.equal(model(x), expected)


def test_int8_models_keep_their_number_of_classes(publish):
    state, _ = original("resnet18")
    publish(member_of("resnet18"), state)
    with pytest.raises(ValueError, match=r"head 'fc' is a torch\.ao\.nn\.quantized\S+Linear, expected a torch\.nn"):
        models.get_model("quantized_resnet18", weights=member_of("resnet18"), num_classes=10)


def test_names_mean_float_weights_unless_int8_is_asked_for(publish):
    torch.manual_seed(0)
    float_model = models.resnet18().eval()
    publish(ResNet18_Weights.IMAGENET1K_V1, float_model.state_dict())
    x = pictures("resnet18")
    with torch.inference_mode():
        expected = float_model(x)
        for model in (
            quantization.resnet18(weights="DEFAULT"),
            quantization.resnet18(weights=ResNet18_Weights.DEFAULT),
            models.get_model("quantized_resnet18", weights="DEFAULT"),
            models.get_model("quantized_resnet18", weights="IMAGENET1K_V1"),
        ):
            torch.testing.assert_close(model.eval()(x), expected)
    with pytest.raises(TypeError, match="expected ResNet18_QuantizedWeights"):
        quantization.resnet18(weights=ResNet18_Weights.DEFAULT, quantize=True)


def test_the_old_switch_means_weights_of_the_kind_of_model_that_is_built(publish):
    state, saved = original("resnet18")
    publish(member_of("resnet18"), state)
    x = pictures("resnet18")
    with pytest.warns(UserWarning, match="pretrained=True"):
        model = quantization.resnet18(pretrained=True, quantize=True)
    assert torch.equal(model(x), saved(x))


@pytest.mark.parametrize("name", NAMES)
def test_int8_members_name_their_float_weights_and_their_engine(name):
    for member in models.get_model_weights(name):
        assert member.meta["backend"] in ("fbgemm", "qnnpack")
        float_builder = name.removeprefix("quantized_")
        assert member.meta["unquantized"] in models.get_model_weights(float_builder)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "mobilenet_v3_large", "shufflenet_v2_x0_5"])
def test_fusing_keeps_the_outputs_of_the_float_model(name):
    torch.manual_seed(0)
    model = getattr(quantization, name)()
    model(pictures(name, 4))  # running statistics that are not the initial ones
    model.eval()
    x = pictures(name)
    with torch.inference_mode():
        expected = model(x)
        model.fuse_model()
        torch.testing.assert_close(model(x), expected, rtol=1e-3, atol=1e-4)
    assert not [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]


def test_int8_is_close_to_float_once_it_saw_the_data():
    torch.manual_seed(0)
    model = quantization.resnet18().eval()
    x = pictures("resnet18", 8)
    with torch.inference_mode():
        expected = model(x)
    model.qconfig = ao.QConfig(
        activation=ao.HistogramObserver.with_args(quant_min=0, quant_max=127),
        weight=ao.default_per_channel_weight_observer,
    )
    model.fuse_model()
    ao.prepare(model, inplace=True)(x)
    ao.convert(model, inplace=True)
    error = (model(x) - expected).norm() / expected.norm()
    assert error < 0.2


def test_simulated_quantization_trains_every_parameter():
    torch.manual_seed(0)
    model = quantization.mobilenet_v2().train()
    model.fuse_model(is_qat=True)
    model.qconfig = ao.get_default_qat_qconfig("qnnpack")
    ao.prepare_qat(model, inplace=True)
    model(pictures("mobilenet_v2")).sum().backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


def test_int8_without_weights_runs_and_draws_no_random_numbers_for_its_ranges():
    torch.manual_seed(0)
    quantization.shufflenet_v2_x0_5()
    after = torch.rand(1)
    torch.manual_seed(0)
    model = quantization.shufflenet_v2_x0_5(quantize=True)
    assert torch.equal(torch.rand(1), after)
    assert model(pictures("shufflenet_v2_x0_5")).shape == (2, 1000)


def test_int8_models_stay_on_the_cpu_in_float32():
    for option in ({"device": "cuda"}, {"dtype": torch.bfloat16}):
        with pytest.raises(ValueError, match="quantize=False"):
            quantization.resnet18(quantize=True, **option)


def test_an_engine_that_torch_lacks_is_named():
    with pytest.raises(RuntimeError, match="not with 'abacus'"):
        quantization.utils.quantize_model(quantization.resnet18(), "abacus")


def test_int8_weights_of_inception_have_no_auxiliary_head():
    with pytest.raises(ValueError, match="aux_logits"):
        quantization.inception_v3(weights="DEFAULT", quantize=True, aux_logits=True)


def test_a_torch_without_this_kind_of_quantization_says_what_to_do():
    code = """
        import sys
        import torch
        sys.modules["torch.ao.quantization"] = None
        del torch.ao.quantization
        from flambeau.vision import models
        assert "quantized_resnet18" in models.list_models()
        try:
            models.quantization.resnet18
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert "torchao" in done.stdout
