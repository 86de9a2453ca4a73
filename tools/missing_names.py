"""Print upstream's public names that a package lacks.

    python tools/missing_names.py vision

The recorded upstream surface lies in `tests/parity/upstream` of each package. Prints one missing name a line and the
counts, and beside them what is left out with the reason; exits 1 when names are missing, or when a pattern of
`LEFT_OUT` leaves out nothing.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from flambeau.core.testing.golden import upstream_facts

ROOT = Path(__file__).parent.parent.resolve()
# Upstream's root as recorded -> ours. Vision's record is already printed under our root.
ROOTS = {
    "captum": "flambeau",
    "torchaudio": "flambeau.audio",
    "torchcsprng": "flambeau.csprng",
    "torio": "flambeau.audio",
    "torchtext": "flambeau.text",
    "torchrec": "flambeau.rec",
    "fbgemm_gpu": "flambeau.rec.fbgemm_gpu",
    "torchrl": "flambeau.rl",
    "torchdata": "flambeau.data",
    "tensordict": "flambeau.data.tensordict",
    "torchx": "flambeau.launch",
}


# Recorded, and deliberately not built: package -> pattern of names under our root -> why.
LEFT_OUT: dict[str, dict[str, str]] = {
    "data": {"flambeau.data.tensordict.testing.*": "classes that upstream's own tests are made of"},
    "launch": {
        "flambeau.launch.pipelines.kfp.*": "makes steps of Kubeflow Pipelines 1; release 2 has no `ContainerOp` to "
        "make, and torchx itself took it out after 0.7",
        "flambeau.launch.schedulers.aws_sagemaker_scheduler.AWSSageMakerOpts.*": "options of the SageMaker SDK's "
        "estimators, which upload code: here code comes in the image, or is built into it from the workspace",
    },
    "rec": {
        "torch.ops.*_pt2_wrapper": "steps of generated look-ups, which only the code that FBGEMM generates calls; the "
        "look-ups themselves are there (`split_embedding_codegen_lookup_*`)",
        "torch.ops.*_backward_codegen_*_cpu": "backward passes of generated look-ups, likewise",
        "torch.ops.*_codegen_forward_cpu": "forward passes of generated look-ups, likewise",
        "torch.ops.*_grad_indice_weights_cpu": "gradients of weights of generated look-ups, likewise",
        "torch.ops.*.ssd_embedding_codegen_lookup_*": "look-up in a cache of CUDA memory before tables on disk; "
        "`SSDTableBatchedEmbeddingBags` looks up in its own",
        "torch.ops.*.batch_index_select_dim0_*_impl": "halves of `batch_index_select_dim0`, which has its gradient",
        "torch.ops.*.group_index_select_dim0_gpu_*": "halves of `group_index_select_dim0`, which has its gradient",
        "torch.ops.*.transpose_embedding_input": "sorts ids for CUDA's backward kernels, and gives what only they read",
        "flambeau.rec.fbgemm_gpu.sparse_ops.*": "functions that FBGEMM gives to torch for tracing: shapes, and what "
        "is kept for gradients. Our operators bring theirs along; `torch.ops.flambeau_rec` has them by their names",
        "flambeau.rec.distributed.logging_handlers.*": "events for a telemetry service that is not published; it logs "
        "nothing without that",
        "flambeau.rec.distributed.logging_utils.*": "events for a telemetry service that is not published, likewise",
        "flambeau.rec.distributed.batched_embedding_kernel.Triton*": "wraps a library of Triton kernels that FBGEMM's "
        "distribution does not have; the kernel `fused_triton` trains the same tables",
        "flambeau.rec.distributed.batched_embedding_kernel.ShardedBatchedFused*": "inner kernels of `FULLY_SHARDED`, "
        "which `DMPCollection` offers; it keeps copies equal before each forward pass",
        "flambeau.rec.distributed.batched_embedding_kernel.ReduceScatterResizeAwaitable": "belongs to these kernels",
        "flambeau.rec.models.cuda_graph_*": "a benchmark of CUDA graphs, and its models",
        "flambeau.rec.models.experimental.test_transformerdlrm.*": "upstream's tests of `DLRM_Transformer`",
        "flambeau.rec.fx.utils.fake_range": "works around a gap of TorchScript, which is no goal here",
        "flambeau.rec.*.TYPE_CHECKING": "Python's constant for type checkers, which upstream's modules import",
    },
    "rl": {
        "flambeau.rl.envs.transforms._misc.*": "a private module for what found no other there; "
        "`envs.transforms.transforms` has the transforms",
        "flambeau.rl.envs.transforms._clip.ExpandAs*": "a private module; `envs.transforms.transforms` has it",
        "flambeau.rl.envs.transforms*.VC1Transform.IMPORT_ERROR": "an error's text; ours names the package, too",
        "flambeau.rl.envs.transforms*.VC1Transform.*_vc_models": "runs pip inside of the program",
        "flambeau.rl.envs.transforms*.VC1Transform.make_noload_model": "writes a network for tests among files of "
        'another package; `model_name="default"` is one',
        "flambeau.rl.envs.transforms*.Tokenizer.device": "deprecated there; `out_device` is the same",
    },
}


def recorded(package: str) -> dict[str, list[str]]:
    """Module (under our root) -> its public names upstream, and of recorded classes `Class.member`."""
    if package == "data":
        # What is public of tensordict's private modules is recorded under a public module too.
        modules = _modules(_facts(package, "tensordict"))
        return _pipes() | {name: names for name, names in modules.items() if "._" not in name}
    if package == "rec":
        operators = {"torch.ops.flambeau_rec": list(_facts(package, "fbgemm_ops")["operators"])}
        return _modules(_facts(package, "api")) | _modules(_facts(package, "fbgemm_api")) | operators
    return _modules(_facts(package, "api"))


def _facts(package: str, topic: str) -> dict[str, Any]:
    folder = next(path for path in (ROOT / package, ROOT / "plugins" / package) if path.is_dir())
    facts: dict[str, Any] = upstream_facts(topic, folder / "tests")
    return facts


def _modules(facts: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for module, names in facts["modules"].items():
        found[_ours(module)] = list(names)
        if not isinstance(names, dict):
            continue
        for name, home in names.items():  # a class is described once, where it is defined, or in its place
            about = facts.get("definitions", {}).get(home) if isinstance(home, str) else home
            members = [*(about or {}).get("members", ()), *(about or {}).get("methods", ())]
            found[_ours(module)] += [f"{name}.{member}" for member in members]
    return found


def _pipes() -> dict[str, list[str]]:
    facts = _facts("data", "datapipes")
    root = "flambeau.data"
    found = {}
    for kind in ("iter", "map"):
        names = list(facts[kind])
        base = "IterDataPipe" if kind == "iter" else "MapDataPipe"
        names += [f"{base}.{about['method']}" for about in facts[kind].values() if about.get("method")]
        found[f"{root}.datapipes.{kind}"] = names
    for module in ("nodes", "stateful_dataloader"):
        names = list(facts[module])
        names += [f"{name}.{method}" for name, about in facts[module].items() for method in about.get("methods", ())]
        found[f"{root}.{module}"] = names
    return found


def _ours(module: str) -> str:
    root, _, rest = module.partition(".")
    return ".".join(part for part in (ROOTS.get(root, root), rest) if part)


def missing(package: str) -> tuple[list[str], int]:
    """The names that cannot be imported, and how many there are in all."""
    absent, total = [], 0
    for module, names in recorded(package).items():
        total += len(names)
        try:
            found = _imported(module)
        except ModuleNotFoundError:
            absent += [f"{module}.{name}" for name in names]
            continue
        absent += [f"{module}.{name}" for name in names if not _has(found, name)]
    return absent, total


def sorted_out(package: str, absent: list[str]) -> tuple[list[str], dict[str, int]]:
    """What of it has no reason, and how many names each pattern of `LEFT_OUT` leaves out."""
    patterns = LEFT_OUT.get(package, {})
    counts = dict.fromkeys(patterns, 0)
    unexplained = []
    for name in absent:
        pattern = next((one for one in patterns if fnmatchcase(name, one)), None)
        if pattern is None:
            unexplained.append(name)
        else:
            counts[pattern] += 1
    return unexplained, counts


def left_out_table(package: str) -> str:
    """What is left out and why, as a table of Markdown."""
    rows = [f"| `{pattern}` | {why[0].upper()}{why[1:]}. |" for pattern, why in LEFT_OUT[package].items()]
    return "\n".join(["| names | why |", "|---|---|", *rows])


def _imported(module: str) -> Any:
    if not module.startswith("torch.ops."):
        return importlib.import_module(module)
    import torch

    importlib.import_module(module.removeprefix("torch.ops.").replace("_", ".", 1))  # announces its operators
    return getattr(torch.ops, module.removeprefix("torch.ops."))


def _has(module: Any, path: str) -> bool:
    value = module
    names = path.split(".")
    for name in names:
        try:
            # A member of a class is looked for, not computed: properties of classes may ask the network.
            last = isinstance(value, type) and name is names[-1]
            value = inspect.getattr_static(value, name) if last else getattr(value, name)
        except AttributeError:
            # Fields of a dataclass without default are no attributes of the class, nor are functions of pipes.
            return name in getattr(value, "__annotations__", ()) or name in getattr(value, "functions", ())
    return True


def main(argv: list[str]) -> int:
    """Print what is missing for each package named, and why what is left out is."""
    bad = False
    for package in argv:
        absent, total = missing(package)
        unexplained, counts = sorted_out(package, absent)
        for pattern, count in counts.items():
            why = LEFT_OUT[package][pattern] if count else "leaves out nothing; remove it from LEFT_OUT"
            print(f"left out: {pattern} ({count}): {why}", file=sys.stderr)
        for name in unexplained:
            print(name)
        bad |= bool(unexplained) or not all(counts.values())
        present = f"{total - len(absent)} of {total} names present, {sum(counts.values())} left out with a reason"
        print(f"{package}: {present}, {len(unexplained)} missing", file=sys.stderr)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
