"""Optimizers train as torchrec's do, and their states have its names, errors and printed forms."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Suite, cross
from flambeau.core.testing.fill import tensor

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "optim",
    ours="flambeau.rec.optim",
    peer="torchrec.optim",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
)


def params(*names):
    """Parameters by name."""
    shapes = {"a": (4, 3), "b": (3,), "c": (2, 2, 2)}
    return {name: torch.nn.Parameter(tensor(name, shapes[name])) for name in names or ("a", "b")}


def gradients(named, step=0, sparse=False, skip=()):
    """Set gradients that depend on names and step."""
    for name, param in named.items():
        if name in skip or param.numel() == 0 or not param.requires_grad:
            continue
        gradient = tensor(f"{name}/{step}", tuple(param.shape)) * 3
        if sparse:
            gradient[1::2] = 0
            gradient = gradient.to_sparse(1)
        param.grad = gradient


def train(optimizer, count=3, sparse=False, skip=()):
    """Steps; the parameters, learning rates and state after each."""
    seen = []
    for step in range(count):
        optimizer.zero_grad()
        gradients(optimizer.params, step, sparse, skip)
        optimizer.step()
        rates = [group.get("lr") for group in optimizer.param_groups]
        values = [param.detach().clone() for param in optimizer.params.values() if param.requires_grad]
        seen.append([values, rates, copy.deepcopy(optimizer.state_dict())])
    return seen


def plain(optimizer, named, count=3, sparse=False):
    """Steps of an optimizer without names; what it keeps of each parameter after them."""
    for step in range(count):
        gradients(named, step, sparse)
        optimizer.step()
    return [[param.detach().clone(), dict(optimizer.state[param])] for param in named.values()]


def changed(state, change):
    """A copy of a state, changed by a program in which it is `s`."""
    s = copy.deepcopy(state)
    exec(change, {"s": s, "torch": torch})
    return s


class GlobalSGD(torch.optim.SGD):
    """An optimizer that makes global steps by itself."""

    def global_step(self, local_steps, closure):
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["seen"] = local_steps.clone()


LENT = {
    "torch": torch, "copy": copy, "params": params, "gradients": gradients, "train": train, "plain": plain,
    "changed": changed, "tensor": tensor, "GlobalSGD": GlobalSGD,
    "ADAM": lambda p: torch.optim.Adam(p, lr=0.1), "SGD_": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}  # fmt: skip

ROWWISE = [
    f"p = params({names}); plain(RowWiseAdagrad(p.values(){options}), p, sparse={sparse})"
    for names in ("'a'", "'a', 'c'")
    for sparse in (False, True)
    for options in (
        "", ", lr=0.5", ", lr=0.5, eps=0.1", ", lr_decay=0.3", ", weight_decay=0.2", ", maximize=True",
        ", initial_accumulator_value=2.0", ", lr=0.5, weight_decay=0.1, maximize=True, lr_decay=0.1", ", unknown=3",
    )
] + [
    f"RowWiseAdagrad(params('a').values(), {option}=-1.0)"
    for option in ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
] + [
    "o = RowWiseAdagrad(params('a').values()); o.share_memory(); o.state_dict()",
    "o = RowWiseAdagrad(params('a', 'b').values()); o.state_dict()",
    "o = RowWiseAdagrad(params('a').values()); o.defaults",
    "o = RowWiseAdagrad(params('a').values()); o.step(lambda: torch.ones(()))",
    "p = params('a'); o = RowWiseAdagrad(p.values()); plain(o, p); q = params('a'); "
    "r = RowWiseAdagrad(q.values()); r.load_state_dict(o.state_dict()); plain(r, q)",
    "from_tensors = [torch.ones(2, 2), torch.ones(2, 2), torch.zeros(2, 1), torch.tensor(0.0)]; "
    "rowwise_adagrad.adagrad(*[[t] for t in from_tensors], lr=0.1, weight_decay=0.0, lr_decay=0.0, eps=0.1, "
    "maximize=False); from_tensors",
]  # fmt: skip
OPTIMIZERS = {
    "adam": {"o": "KeyedOptimizerWrapper(params(), ADAM)"},
    "sgd": {"o": "KeyedOptimizerWrapper(params(), SGD_)"},
    "dict": {"o": "KeyedOptimizerWrapper(params(), lambda p: torch.optim.Adam(p.values(), lr=0.1), "
    "pass_params_dict=True)"},
    "two": {"o": "CombinedOptimizer([KeyedOptimizerWrapper(params(), ADAM), ('pre', "
    "KeyedOptimizerWrapper(params('a', 'c'), SGD_))])"},
    "one-combined": {"o": "CombinedOptimizer([KeyedOptimizerWrapper(params(), ADAM)])"},
    "wrapped": {"o": "OptimizerWrapper(KeyedOptimizerWrapper(params(), ADAM))"},
    "clipped": {"o": "GradientClippingOptimizer(KeyedOptimizerWrapper(params(), ADAM), GradientClipping.NORM, 0.5)"},
    "warm": {"o": "WarmupOptimizer(KeyedOptimizerWrapper(params(), ADAM), [WarmupStage(WarmupPolicy.LINEAR, 3, "
    "0.1)], lr=0.5)"},
    "warm-sgd": {"o": "WarmupOptimizer(KeyedOptimizerWrapper(params(), SGD_), [WarmupStage(WarmupPolicy.STEP, "
    "3, 0.1)], lr=0.5)"},
    "rowwise": {"o": "KeyedOptimizerWrapper(params('a'), lambda p: RowWiseAdagrad(p, lr=0.1))"},
    "by-itself": {"o": "KeyedOptimizer(params(), {}, [])"},
    "empty": {"o": "fused.EmptyFusedOptimizer()"},
}  # fmt: skip
METHODS = [
    "o.state_dict()",
    "o.defaults",
    "list(o.params)",
    "repr(o)",
    "train(o)",
    "train(o, skip=('b',))",
    "o.init_state(); o.state_dict()",
    "o.init_state(); [param.grad for param in o.params.values()]",
    "o.init_state({'a'}); [param.grad for param in o.params.values()]",
    "o.save_param_groups(True); o.state_dict()",
    "train(o); o.save_param_groups(True); o.state_dict()",
    "o.add_param_group({'params': []})",
    "gradients(o.params); o.zero_grad(); [param.grad for param in o.params.values()]",
    "gradients(o.params); o.zero_grad(set_to_none=True); [param.grad for param in o.params.values()]",
    "train(o); s = o.state_dict(); train(o); o.load_state_dict(copy.deepcopy(s)); [o.state_dict(), train(o)]",
    "train(o); o.load_state_dict(changed(o.state_dict(), \"s['state'].pop('a', None)\"))",
    "train(o); o.load_state_dict(changed(o.state_dict(), \"s['state']['x'] = s['state'].pop('a', {})\"))",
    "train(o); o.load_state_dict(changed(o.state_dict(), \"s['state']['a'] = {}\"))",
    "train(o); o.load_state_dict(changed(o.state_dict(), \"s['more'] = 1\"))",
    "train(o); o.load_state_dict({})",
    "o.load_state_dict(o.state_dict())",
    "o.save_param_groups(True); o.load_state_dict(changed(o.state_dict(), \"s['param_groups'] = []\"))",
    "o.save_param_groups(True); o.load_state_dict(changed(o.state_dict(), \"del s['param_groups']\"))",
    "o.save_param_groups(True); o.load_state_dict(changed(o.state_dict(), \"s['param_groups'][0]['params'] = ['x']\"))",
    "o.save_param_groups(True); o.load_state_dict(changed(o.state_dict(), \"s['param_groups'][0]['lr'] = 7.0\")); "
    "[group['lr'] for group in o.param_groups]",
    "o.save_param_groups(True); o.load_state_dict(changed(o.state_dict(), \"del s['param_groups'][0]['lr']\"))",
    "o.post_load_state_dict()",
    "hasattr(o, 'set_optimizer_step') and o.set_optimizer_step(3)",
    "hasattr(o, 'update_hyper_parameters') and o.update_hyper_parameters({'lr': 0.1})",
    "[type(kept).__name__ for kept in o.state.values()]",
]  # fmt: skip
KEYED = [
    "p = params(); KeyedOptimizer(p, {}, [{'params': list(p.values()), 'lr': 1.0}]).state_dict()",
    "p, q = params('a'), params('b'); KeyedOptimizer(p, {q['b']: {}}, [{'params': list(p.values())}])",
    "p = params('a'); KeyedOptimizer(p, {p['a']: {'x': {'y': torch.ones(1)}, 'z': 3}}, "
    "[{'params': [p['a']]}]).state_dict()",
    "p = params('a'); o = KeyedOptimizer(p, {p['a']: {'x': {'y': torch.ones(1)}, 'z': 3}}, [{'params': [p['a']]}]); "
    "o.load_state_dict({'state': {'a': {'x': {'y': torch.zeros(1)}, 'z': 4}}}); o.state_dict()",
    "p = params('a'); o = KeyedOptimizer(p, {p['a']: {'x': {'y': torch.ones(1)}, 'z': 3}}, [{'params': [p['a']]}]); "
    "o.load_state_dict({'state': {'a': {'x': {'q': torch.zeros(1)}, 'z': 4}}})",
    "CombinedOptimizer([KeyedOptimizerWrapper(params(), ADAM), KeyedOptimizerWrapper(params(), ADAM)])",
    "CombinedOptimizer([])",
    "[CombinedOptimizer.prepend_opt_key(a, b) for a in ('', 'n') for b in ('', 'k')]",
    "o = CombinedOptimizer([('k', KeyedOptimizerWrapper(params(), ADAM))]); [key for key, _ in o.optimizers]",
    "o = CombinedOptimizer([('k', KeyedOptimizerWrapper(params(), ADAM))]); len(o.param_groups)",
    "o = WarmupOptimizer(CombinedOptimizer([KeyedOptimizerWrapper(params(), SGD_)]), [WarmupStage()]); "
    "[group['lr'] for group in o.param_groups]",
]  # fmt: skip
CLIPPING = [
    f"o = GradientClippingOptimizer(KeyedOptimizerWrapper(params({names}), SGD_), GradientClipping.{kind}, {limit}"
    f"{norm}, track_grad_norm=True); [train(o), o.last_total_grad_norm]"
    for names in ("", "'a'", "'a', 'b', 'c'")
    for kind in ("NORM", "VALUE", "NONE")
    for limit in (0.1, 100.0)
    for norm in ("", ", norm_type=1.0", ", norm_type='inf'", ", norm_type=3")
    if kind == "NORM" or not norm
] + [
    "o = GradientClippingOptimizer(KeyedOptimizerWrapper(params(), SGD_), GradientClipping.NORM, 0.1); "
    "gradients(o.params); [o.clip_grad_norm_(), [param.grad for param in o.params.values()]]",
    "o = GradientClippingOptimizer(KeyedOptimizerWrapper(params(), SGD_), GradientClipping.NORM, 0.1); "
    "gradients(o.params); o.compute_total_grad_norm()[0]",
    "o = GradientClippingOptimizer(KeyedOptimizerWrapper(params(), SGD_)); o.last_total_grad_norm",
    "[(one.name, one.value) for one in GradientClipping]",
]  # fmt: skip
STAGES = [
    "WarmupStage(WarmupPolicy.NONE, 5, 0.1)",
    "WarmupStage(WarmupPolicy.LINEAR, 5, 0.1)",
    "WarmupStage(WarmupPolicy.LINEAR, 5, 0.1, lr_scale=2.0)",
    "WarmupStage(WarmupPolicy.LINEAR)",
    "WarmupStage(WarmupPolicy.CONSTANT, 5, 0.1)",
    "WarmupStage(WarmupPolicy.POLY, 5, 2.0)",
    "WarmupStage(WarmupPolicy.POLY, 5, 1.0, decay_iters=10)",
    "WarmupStage(WarmupPolicy.STEP, 5, 0.5)",
    "WarmupStage(WarmupPolicy.STEP, 5, 0.5, decay_iters=2)",
    "WarmupStage(WarmupPolicy.INVSQRT, 5)",
    "WarmupStage(WarmupPolicy.COSINE_ANNEALING_WARM_RESTARTS, 5, 0.1, sgdr_period=2)",
    "WarmupStage(WarmupPolicy.COSINE_ANNEALING_WARM_RESTARTS, 5, 0.1, sgdr_period=4, lr_scale=0.5)",
    "WarmupStage(WarmupPolicy.INTERPOLATE, 5, 1.0, start_interpolating_iters=2, end_value=0.1)",
    "WarmupStage(WarmupPolicy.INTERPOLATE, 5, 1.0, end_value=0.1)",
    "WarmupStage(WarmupPolicy.INTERPOLATE, 5, 1.0)",
    "WarmupStage(WarmupPolicy.LINEAR, 2, 0.1), WarmupStage(WarmupPolicy.CONSTANT, 4, 0.7)",
    "WarmupStage(WarmupPolicy.LINEAR, 2, 0.1), WarmupStage(WarmupPolicy.LINEAR, 6, 0.3)",
    "WarmupStage(WarmupPolicy.CONSTANT, 2, 0.1), WarmupStage(WarmupPolicy.STEP, 6, 0.5), "
    "WarmupStage(WarmupPolicy.POLY, 8, 1.0)",
    "WarmupStage(WarmupPolicy.CONSTANT, 2, 0.1), WarmupStage(WarmupPolicy.INTERPOLATE, 6, 1.0, "
    "start_interpolating_iters=3, end_value=0.5)",
    "WarmupStage(WarmupPolicy.LINEAR, 3, 0.1), WarmupStage(WarmupPolicy.CONSTANT, 3, 0.7)",
    "WarmupStage(WarmupPolicy.LINEAR, 3, 0.1), WarmupStage(WarmupPolicy.CONSTANT, 2, 0.7)",
    "",
]  # fmt: skip
WARMUP = [
    f"o = WarmupOptimizer(KeyedOptimizerWrapper(params('a'), SGD_), [{stages}], lr=0.4); "
    f"[[group['lr'] for group in o.param_groups], train(o, 9)]"
    for stages in STAGES
] + [
    "o = WarmupOptimizer(KeyedOptimizerWrapper(params('a'), SGD_), [WarmupStage()], param_name='here'); "
    "[list(o.params), train(o)]",
    "o = WarmupOptimizer(KeyedOptimizerWrapper(params('a'), SGD_), [WarmupStage(value=0.5)], lr_param='momentum'); "
    "[group['momentum'] for group in o.param_groups]",
    "WarmupStage()",
    "[(one.name, one.value) for one in WarmupPolicy]",
    "stages = [WarmupStage(WarmupPolicy.LINEAR, 6, 0.1)]; "
    "o = WarmupOptimizer(KeyedOptimizerWrapper(params('a'), SGD_), stages); train(o, 2); "
    "r = WarmupOptimizer(KeyedOptimizerWrapper(params('a'), SGD_), stages); r.init_state(); "
    "r.load_state_dict(o.state_dict()); [r.state_dict(), train(r, 2)]",
]  # fmt: skip
BACKWARD = [
    f"p = params('a', 'b'); apply_optimizer_in_backward({kind}, p.values(), {options}); "
    "[(p['a'] * tensor('x', (4, 3)) * p['b']).sum().backward() for _ in range(3)]; "
    "[p['a'].detach(), p['b'].detach(), p['a'].grad, p['b'].grad]"
    for kind, options in (
        ("torch.optim.SGD", {"lr": 0.1}), ("torch.optim.Adam", {"lr": 0.1}),
        ("RowWiseAdagrad", {"lr": 0.1}), ("torch.optim.SGD", {"lr": 0.1, "momentum": 0.5}),
    )
] + [
    "p = params('a'); apply_optimizer_in_backward(torch.optim.SGD, p.values(), {'lr': 0.1}); "
    "[[kind.__name__ for kind in p['a']._optimizer_classes], p['a']._optimizer_kwargs, "
    "len(p['a']._in_backward_optimizers)]",
    "p = params('a'); apply_optimizer_in_backward(torch.optim.SGD, p.values(), {'lr': 0.1}); "
    "apply_optimizer_in_backward(torch.optim.SGD, p.values(), {'lr': 0.2}); p['a'].sum().backward(); "
    "[p['a'].detach(), p['a']._optimizer_kwargs]",
    "p = params('a', 'b'); apply_optimizer_in_backward(torch.optim.SGD, [p['a']], {'lr': 0.1}); "
    "[[name for name, _ in optimizers.in_backward_optimizer_filter(iter(p.items()), "
    "include=keep)] for keep in (False, True)]",
]  # fmt: skip
NAMES = ("SGD", "LarsSGD", "LAMB", "PartialRowWiseLAMB", "Adam", "PartialRowWiseAdam", "Adagrad")
NAMED = [f"optimizers.{name}(params('a').values(), lr=0.1, eps=0.5)._kwargs" for name in NAMES]
SEMISYNC = [
    "p = params('a'); s = SemisyncOptimizer(list(p.values()), KeyedOptimizerWrapper(p, ADAM), "
    f"KeyedOptimizerWrapper(p, lambda q: GlobalSGD(q, lr=0.5)), num_local_steps={count}); {program}"
    for count in (1, 2)
    for program in (
        "list(s.params)", "s.state_dict()", "repr(s)", "len(s.param_groups)", "s.defaults",
        "train_all = [(gradients(p, step), s.step(), copy.deepcopy(s.state_dict()))[2] for step in range(4)]; "
        "[train_all, p['a'].detach()]",
        "gradients(p); s.zero_grad(); p['a'].grad",
        "s.save_param_groups(True); s.state_dict()",
        "s.init_state(); s.load_state_dict(s.state_dict()); s.state_dict()",
        "s.set_optimizer_step(3); s.update_hyper_parameters({}); s.post_load_state_dict()",
        "[(gradients(p, step), s.step()) for step in range(2)]; s.load_state_dict(copy.deepcopy(s.state_dict())); "
        "s.state_dict()",
    )
] + [
    "[semi_sync.SEMISYNC_GLOBAL_STEP_COUNTER_KEY, semi_sync.SEMISYNC_LOCAL_STEP_COUNTER_KEY, "
    "semi_sync.SEMI_SYNC_GLOBAL_OPTIM_KEY, semi_sync.SEMI_SYNC_GLOBAL_STATE_KEY, semi_sync.SEMI_SYNC_LOCAL_OPTIM_KEY, "
    "semi_sync.SEMI_SYNC_LOCAL_STATE_KEY]",
]  # fmt: skip
SUITE.add(
    *cross("keyed", OPTIMIZERS, METHODS, names=LENT),
    *(
        cell
        for area, programs in {
            "rowwise": ROWWISE, "keyed": KEYED, "clipping": CLIPPING, "warmup": WARMUP, "backward": BACKWARD,
            "named": NAMED, "semisync": SEMISYNC,
        }.items()
        for cell in cross(area, {"call": {}}, programs, names=LENT)
    ),
)  # fmt: skip


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
