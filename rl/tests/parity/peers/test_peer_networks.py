# ruff: noqa: E501  (tables)
"""Networks start from the same random numbers as torchrl's, and give the same outputs, gradients and states."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import fill_, tensor
from flambeau.data.tensordict.nn import set_interaction_type

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

SUITE = Suite(
    "networks",
    ours="flambeau.rl.modules",
    peer="torchrl.modules",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)
VECTORS = {
    "two": [(5, 3)], "one": [(3,)], "three": [(2, 5, 3)], "none": [(0, 3)], "parts": [(5, 2), (5, 1)], "narrow": [(5, 2)],
}  # fmt: skip
IMAGES = {"one": [(3, 9, 9)], "two": [(2, 3, 9, 9)], "five": [(2, 4, 3, 9, 9)], "flat": [(9, 9)]}
VOLUMES = {"one": [(3, 5, 5, 5)], "two": [(2, 3, 5, 5, 5)], "six": [(2, 2, 3, 5, 5, 5)]}
LARGE = {"one": [(3, 64, 64)], "two": [(2, 3, 64, 64)]}
PAIRS = {"two": [(5, 3), (5, 2)], "three": [(4, 5, 3), (4, 5, 2)]}
LARGE_PAIRS = {"two": [(2, 3, 64, 64), (2, 2)]}
AGENTS = {
    "three": [(5, 2, 3)],
    "two": [(2, 3)],
    "four": [(2, 5, 2, 3)],
    "other": [(5, 3, 3)],
    "parts": [(5, 2, 2), (5, 2, 1)],
}
AGENT_IMAGES = {"five": [(2, 2, 3, 12, 12)], "four": [(2, 3, 12, 12)], "other": [(2, 3, 3, 12, 12)]}
VALUES = {
    "two": [(4, 3, 1), (4, 5)],
    "one": [(3, 1), (5,)],
    "three": [(2, 4, 3, 1), (2, 4, 5)],
    "state": [(4, 3, 1), (4, 6)],
}
SUMS = {"two": [(4, 3, 1)], "wrong": [(4, 2, 1)], "more": [(4, 3, 1), (4, 5)]}
NORM = "norm_class=nn.LayerNorm, norm_kwargs={'normalized_shape': 4}"
BATCH = {"two": [(6, 3)], "three": [(6, 3, 4)], "four": [(2, 3, 2, 2)], "vector": [(3,)]}
STATE = {"two": [(4, 2), (4, 3)], "one": [(2,), (3,)]}
GRUS = {"three": [(3, 4, 6)], "hidden": [(3, 4, 6), (3, 8)], "two": [(3, 6)], "other": [(2, 4, 5)]}
CELLS = {"one": [(6,)], "two": [(3, 6), (3, 8)], "three": [(2, 3, 6)], "other": [(3, 5)], "wrong": [(3, 6), (2, 8)]}
GRU = "DreamerV3BlockGRU(6, 8, projection_size=4, num_blocks=2"
LATENT = {"two": [(3, 8), (3, 3)], "three": [(2, 3, 8), (2, 3, 3)], "one": [(8,), (3,)]}
STEP = {"two": [(3, 8), (3, 8), (3, 2)], "three": [(2, 3, 8), (2, 3, 8), (2, 3, 2)], "one": [(8,), (8,), (2,)]}
PRIOR = "RSSMPriorV3(action_shape=(2,), hidden_dim=6, rnn_hidden_dim=8, num_categoricals=2, num_classes=4"
POSTERIOR = "RSSMPosteriorV3(6, 2, 4"
BELIEFS = {"one": [(3,), (3, 3)], "two": [(2, 3), (2, 3, 3)]}
BLOCKS = {
    "dreamer-mlp": (VECTORS, [
        "DreamerV3MLP(3, 4, depth=2, num_cells=8)", "DreamerV3MLP(3, None, depth=1, num_cells=8)", "DreamerV3MLP(3, 2, depth=0)",
        "DreamerV3MLP(3, 4, depth=1, num_cells=5, outscale=0.5, norm_eps=0.1)", "DreamerV3MLP(3, 4, num_cells=5, outscale=0.0)",
        "DreamerV3MLP(3, None, depth=0)", "DreamerV3MLP(4, 2)",
    ]),
    "dreamer-gru": (GRUS, [
        f"{GRU})", f"{GRU}, num_layers=2, update_bias=0.5, norm_eps=0.1)", f"{GRU}, activation_class=nn.Tanh)",
        f"{GRU}, recurrent_backend='triton')", f"{GRU}, recurrent_backend='fast')", f"{GRU}, num_layers=0)",
        "DreamerV3BlockGRU(6, 7, projection_size=4, num_blocks=2)", "DreamerV3BlockGRU(6, 8, num_blocks=0)",
        f"{GRU}, activation_class=nn.PReLU)",
    ]),
    "dreamer-gru-cell": (CELLS, [
        f"{GRU.replace('GRU', 'GRUCell')})", f"{GRU.replace('GRU', 'GRUCell')}, num_layers=3)",
        "DreamerV3BlockGRUCell(6, 8, projection_size=3, num_blocks=1, activation_class=nn.ReLU)",
        "DreamerV3BlockGRUCell(6, 7, num_blocks=2)",
    ]),
    "dreamer-encoder": (IMAGES, [
        "DreamerV3ImageEncoder(depth=2, mults=(1, 2))", "DreamerV3ImageEncoder(3, 2, (3,), kernel_size=3, norm_eps=0.1)",
        "DreamerV3ImageEncoder(kernel_size=4)", "DreamerV3ImageEncoder(mults=())", "DreamerV3ImageEncoder(1, 2, (1, 1))",
    ]),
    "dreamer-decoder": (LATENT, [
        "DreamerV3ImageDecoder(11, (3, 8, 12), depth=2, mults=(1, 2), num_blocks=1)",
        "DreamerV3ImageDecoder(11, (1, 8, 8), depth=11, mults=(1, 3), num_blocks=11, kernel_size=3, norm_eps=0.1)",
        "DreamerV3ImageDecoder(11, (3, 8, 8), depth=2, mults=(1, 2), num_blocks=2)",
        "DreamerV3ImageDecoder(11, (3, 6, 8), depth=2, mults=(1, 2), num_blocks=1)", "DreamerV3ImageDecoder(11, mults=())",
        "DreamerV3ImageDecoder(11, kernel_size=2)", "DreamerV3ImageDecoder(12, (3, 4, 4), depth=2, mults=(1,), num_blocks=2)",
    ]),
    "dreamer-posterior": (LATENT, [
        f"{POSTERIOR}, 8, 3)", f"{POSTERIOR}, 8, 3, use_rms_norm=True)", f"{POSTERIOR}, 8, 3, use_rms_norm=True, num_layers=2, unimix=0.3)",
        f"{POSTERIOR}, None, None)", f"{POSTERIOR}, use_rms_norm=True)", f"{POSTERIOR}, 8, 3, unimix=1.0)", f"{POSTERIOR}, 8, 3, unimix=0.5, norm_eps=0.1)",
    ]),
    "dreamer-prior": (STEP, [
        f"{PRIOR}, action_dim=2)", f"{PRIOR}, action_dim=2, recurrent_model='block_gru', num_blocks=2)", f"{PRIOR}, action_dim=None)",
        f"{PRIOR}, action_dim=2, recurrent_model='block_gru', num_blocks=4, num_layers=2, prior_num_layers=1, norm_eps=0.1, unimix=0.3)",
        f"{PRIOR}, recurrent_model='block_gru', num_blocks=2)", f"{PRIOR}, recurrent_model='lstm')", f"{PRIOR}, unimix=-0.1)",
        f"{PRIOR}, action_spec=torch.zeros(2))", f"{PRIOR}, action_dim=2, recurrent_model='block_gru', num_blocks=3)",
    ]),
    "rbf": (BELIEFS, ["RBFController(3, 2, 1.5, 4)", "RBFController(3, 1, torch.tensor([2.0]), n_basis=1)", "RBFController(3, 2, 1.0)"]),
    "mlp": (VECTORS, [
        "MLP(3, 2)", "MLP(3, 2, depth=2)", "MLP(3, 2, depth=1, num_cells=4)", "MLP(3, (2, 4), num_cells=[6])",
        "MLP(3, torch.Size([2, 4]), num_cells=[6, 5], activation_class=nn.ReLU)", "MLP(3, 2, num_cells=())",
        "MLP(None, 2, num_cells=[4])", "MLP(out_features=2, depth=0)", "MLP(3, 2, num_cells=[4], bias_last_layer=False)",
        "MLP(3, 2, num_cells=[4], single_bias_last_layer=True)", "MLP(3, 2, num_cells=[4], activate_last_layer=True)",
        f"MLP(3, 2, num_cells=[4, 4], {NORM})", "MLP(3, 2, num_cells=[4], dropout=0.3)",
        f"MLP(3, 4, num_cells=[4], dropout=0.3, activate_last_layer=True, {NORM})",
        "MLP(3, 2, num_cells=[4, 5], activation_class=nn.LeakyReLU, activation_kwargs={'negative_slope': 0.5})",
        "MLP(3, 2, num_cells=[4, 5], activation_class=nn.LeakyReLU, activation_kwargs=[{'negative_slope': 0.5}, {}])",
        "MLP(3, 2, num_cells=[4, 5], activation_class=nn.LeakyReLU, activation_kwargs=[{'negative_slope': 0.5}])",
        "MLP(3, 2, num_cells=[4], layer_kwargs={'bias': False})", "MLP(3, 2, num_cells=[4], layer_kwargs=[{'bias': False}, {}])",
        "MLP(3, 2, num_cells=[4], layer_class=NoisyLinear)", "MLP(None, 2, num_cells=[4], layer_class=NoisyLinear)",
        "MLP(3, 2, num_cells=[4], layer_class=NoisyLinear, single_bias_last_layer=True)",
        "MLP(3)", "MLP(3, 2, depth=3, num_cells=[4, 5])", "MLP(3, 2, num_cells=[4], device='cpu')",
    ]),
    "conv": (IMAGES, [
        "ConvNet(3, num_cells=[4], kernel_sizes=3)", "ConvNet(3, num_cells=[4, 5], kernel_sizes=[3, 2], strides=[1, 2])",
        "ConvNet(3, depth=2, num_cells=4, kernel_sizes=[3, (2, 3)], paddings=1)", "ConvNet(num_cells=[4], bias_last_layer=False)",
        "ConvNet(3, num_cells=[4], norm_class=nn.BatchNorm2d, norm_kwargs={'num_features': 4})",
        "ConvNet(3, num_cells=[4], aggregator_class=None)", "ConvNet(3, num_cells=[4], squeeze_output=True)",
        "ConvNet(3, num_cells=[4], aggregator_class=nn.AdaptiveAvgPool2d, aggregator_kwargs={'output_size': (1, 1)}, squeeze_output=True)",
        "ConvNet(3, depth=2)", "ConvNet(3, depth=3)", "ConvNet(3, num_cells=[4, 5], kernel_sizes=[3])", "ConvNet(3, num_cells=4)",
        "ConvNet(3, num_cells=[4, 5], activation_class=nn.LeakyReLU, activation_kwargs=[{'negative_slope': 0.5}, {}])",
        "ConvNet(3)", "models.Conv2dNet(3, num_cells=[4])",
    ]),
    "conv3d": (VOLUMES, [
        "Conv3dNet(3, num_cells=[4])", "Conv3dNet(num_cells=[4, 5], kernel_sizes=[3, 2])", "Conv3dNet(3, depth=1)",
        "Conv3dNet(3, depth=2, num_cells=3, kernel_sizes=2, norm_class=nn.BatchNorm3d, norm_kwargs={'num_features': 3})",
    ]),
    "dueling": (VECTORS, [
        "models.models.DuelingMlpDQNet(4)", "models.models.DuelingMlpDQNet((4, 2), mlp_kwargs_feature={'num_cells': [5], 'out_features': 6})",
        "models.models.DuelingMlpDQNet(4, mlp_kwargs_output={'num_cells': 7, 'depth': 1})",
    ]),
    "dueling-images": (IMAGES, [
        "DuelingCnnDQNet(4, cnn_kwargs={'num_cells': [4], 'kernel_sizes': [3], 'strides': [1]}, mlp_kwargs={'num_cells': [6]})",
        "DuelingCnnDQNet(4, 4, cnn_kwargs={'num_cells': [4], 'kernel_sizes': [3], 'strides': [1]}, mlp_kwargs={'num_cells': [6]})",
    ]),
    "ddpg": (VECTORS, ["DdpgMlpActor(2)", "DdpgMlpActor(2, {'in_features': 3})", "DdpgMlpActor(2, {'num_cells': [4, 5]})",
                       "DdpgMlpActor(2, {'num_cells': [4]})"]),
    "ddpg-critics": (PAIRS, ["DdpgMlpQNet()", "DdpgMlpQNet({'in_features': 3}, {'num_cells': [5]})",
                             "DdpgMlpQNet({'out_features': 7})"]),
    "ddpg-images": (LARGE, ["DdpgCnnActor(2)", "DdpgCnnActor(2, use_avg_pooling=True)",
                            "DdpgCnnActor(2, {'num_cells': [3, 4, 5]}, {'num_cells': 6})"]),
    "ddpg-image-critics": (LARGE_PAIRS, ["DdpgCnnQNet()", "DdpgCnnQNet(use_avg_pooling=False)"]),
    "dqn-images": ({"two": [(2, 4, 84, 84)]}, ["ConvNet.default_atari_dqn(5)"]),
    "noisy": (VECTORS, ["NoisyLinear(3, 2)", "NoisyLinear(3, 2, bias=False)", "NoisyLinear(3, 2, std_init=0.1)", "NoisyLazyLinear(2)",
                        "NoisyLazyLinear(2, False)", "NoisyLinear(3, 2, use_exploration_type=False)",
                        "NoisyLinear(3, 2, dtype=torch.float64)"]),
    "batch-renorm": (BATCH, ["BatchRenorm1d(3)", "BatchRenorm1d(3, warmup_steps=1)", "BatchRenorm1d(3, warmup_steps=2, smooth=True)",
                             "BatchRenorm1d(3, warmup_steps=0, max_r=1.1, max_d=0.1, momentum=0.5, eps=0.1)"]),
    "gsde": (STATE, [f"models.exploration.gSDEModule(2, 3{more})" for more in
                     ("", ", sigma_init=0.5", ", sigma_init=0.5, learn_sigma=False", ", scale_max=0.1",
                      ", transform=torch.distributions.TanhTransform()", ", scale_min=0.9")] +
             ["models.exploration.LazygSDEModule()", "models.exploration.LazygSDEModule(0.5)",
              "models.exploration.LazygSDEModule(0.5, learn_sigma=False)"]),
    "agents": (AGENTS, [f"MultiAgentMLP({inputs}, 2, 2, centralized={c}, share_params={s}, depth=1, num_cells=4{more})"
                        for inputs in (3, None) for c in (True, False) for s in (True, False) for more in ("", ", use_td_params=False")] +
               ["MultiAgentMLP(3, 2, 2, centralized=True, share_params=True)", "MultiAgentMLP(3, 2, 2, centralized=True)",
                "MultiAgentMLP(3, 2, 2, share_params=True)"]),
    "agent-images": (AGENT_IMAGES, [f"MultiAgentConvNet(2, {c}, {s}, in_features={inputs}, num_cells=[4], kernel_sizes=3)"
                                    for inputs in (3, None) for c in (True, False) for s in (True, False)]),
    "mixers": (VALUES, ["QMixer((5,), 6, 3, 'cpu')", "QMixer((5,), 6, 2, 'cpu')"]),
    "sums": (SUMS, ["VDNMixer(3, 'cpu')"]),
    "decisions": ({"one": [(4, 3), (4, 2), (4, 1)], "two": [(2, 4, 3), (2, 4, 2), (2, 4, 1)], "long": [(1, 40, 3), (1, 40, 2), (1, 40, 1)]}, [
        f"{kind}(3, 2, {config})" for kind in ("DTActor", "OnlineDTActor", "DecisionTransformer")
        for config in ("dict(n_embd=8, n_layer=1, n_head=2, n_inner=16, activation='relu', n_positions=32, resid_pdrop=0.0, attn_pdrop=0.0)",
                       "DecisionTransformer.DTConfig(n_embd=8, n_layer=2, n_head=4, n_inner=16, activation='gelu_new', n_positions=128)")]),
    "squeezing": ({"two": [(5, 3)], "ones": [(5, 1, 1)], "one": [(5, 1)]}, [
        "SqueezeLayer()", "SqueezeLayer((-1, -2))", "SqueezeLayer((0,))", "Squeeze2dLayer()", "models.utils.SquashDims()",
        "models.utils.SquashDims(2)"]),
}  # fmt: skip


def made(library, text):
    names = {"torch": torch, "nn": torch.nn, "models": library.models}
    for name in text.replace("(", " ").replace("=", " ").replace(")", " ").replace(",", " ").replace(".", " ").split():
        if name[0].isupper() and name not in names and hasattr(library, name):
            names[name] = getattr(library, name)
    return eval(text, names)


def learn(library, given, text, filled, training):
    block = made(library, text)
    if "MultiAgent" in text and "None" in text:
        block(*given["x"])
    if filled:
        if "None" in text or "Lazy" in text or "out_features=2" in text:
            block(*given["x"])
        fill_(block)
    block.train(training)
    inputs = [x.clone().requires_grad_() for x in given["x"]]
    outputs = block(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum(out.square().sum() for out in outputs if out.requires_grad).backward()
    state = {name: value.detach() for name, value in block.state_dict().items()}
    return {
        "state": {name: [tuple(value.shape), value.dtype] for name, value in state.items()},
        "values": {name: value for name, value in state.items() if value.numel() < 5000},
        "output": [out.detach() for out in outputs], "inputs": [x.grad for x in inputs],
        "gradients": {n: p.grad for n, p in block.named_parameters() if p.grad is not None and p.numel() < 5000},
    }  # fmt: skip


def in_mode(call, kind):
    """Both libraries have a switch of their own for exploration; theirs is looked up beside the library."""

    def run(library, given):
        if library.ours:
            with set_interaction_type(kind):
                return call(library, given)
        from tensordict.nn import set_interaction_type as theirs

        with theirs(kind):
            return call(library, given)

    return run


for _area, (_inputs, _texts) in BLOCKS.items():
    for _text in _texts:
        for _name, _shapes in _inputs.items():
            for _way, _filled, _training, _kind in (
                ("drawn", False, True, "random"),
                ("filled", True, False, "deterministic"),
                ("training", True, True, "random"),
            ):
                if _area == "decisions" and _way != "filled":
                    continue  # random numbers are drawn in another order
                _more = [torch.zeros(1)] if _area == "gsde" else []

                def _build(library, shapes=_shapes, gsde=_area == "gsde", area=_area):
                    noise = [torch.zeros(*shapes[0][:-1], 1)] if gsde else []
                    made = [tensor(f"x{at}", shape) for at, shape in enumerate(shapes)]
                    if area == "rbf":  # a covariance
                        made[1] = made[1] @ made[1].mT
                    return {"x": made + noise}

                def _call(library, given, text=_text, filled=_filled, training=_training):
                    return learn(library, given, text, filled, training)

                SUITE.add(Cell(f"{_area}/{_name}/{_way}/{_text}", _area, in_mode(_call, _kind), _build))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
