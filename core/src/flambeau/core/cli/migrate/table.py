"""What upstream's modules and operator namespaces are called here. The one table of the migration."""

from __future__ import annotations

# Upstream module -> ours. Everything below a module moves with it: torchvision.ops -> flambeau.vision.ops.
MODULES: dict[str, str] = {
    "captum.influence": "flambeau.influence",
    "fbgemm_gpu": "flambeau.rec.ops",
    "tensordict": "flambeau.data.tensordict",
    "torcharrow": "flambeau.data.frame",
    "torchaudio": "flambeau.audio",
    "torchcsprng": "flambeau.csprng",
    "torchdata": "flambeau.data",
    "torchrec": "flambeau.rec",
    "torchrl": "flambeau.rl",
    "torchtext": "flambeau.text",
    "torchvision": "flambeau.vision",
    "torchx": "flambeau.launch",
}

# Namespace below torch.ops -> ours.
OPERATORS: dict[str, str] = {
    "fbgemm": "flambeau_rec",
    "torchaudio": "flambeau_audio",
    "torchrec": "flambeau_rec",
    "torchtext": "flambeau_text",
    "torchvision": "flambeau_vision",
}


# Upstream distribution, its name normalized -> our package in its place.
DISTRIBUTIONS: dict[str, str] = {
    "fbgemm-gpu": "flambeau.rec",
    "fbgemm-gpu-cpu": "flambeau.rec",
    "tensordict": "flambeau.data",
    "tensordict-nightly": "flambeau.data",
    "torcharrow": "flambeau.data",
    "torchaudio": "flambeau.audio",
    "torchcsprng": "flambeau.csprng",
    "torchdata": "flambeau.data",
    "torchrec": "flambeau.rec",
    "torchrl": "flambeau.rl",
    "torchrl-nightly": "flambeau.rl",
    "torchserve": "flambeau.serve",
    "torchtext": "flambeau.text",
    "torchvision": "flambeau.vision",
    "torchx": "flambeau.launch",
}

# Upstream distribution of which only a part is here -> that part, and our distribution with it.
SPLIT_DISTRIBUTIONS: dict[str, tuple[str, str]] = {"captum": ("captum.influence", "flambeau-influence")}


def moved(dotted: str) -> str | None:
    """Our name of an upstream module or of something in it; None for what does not move.

    Example:
        >>> moved("torchvision.models.resnet50")
        'flambeau.vision.models.resnet50'
        >>> moved("torch.nn") is None
        True
    """
    parts = dotted.split(".")
    for length in (2, 1):
        target = MODULES.get(".".join(parts[:length]))
        if target is not None:
            return ".".join([target, *parts[length:]])
    return None


def distribution(target: str) -> str:
    """The distribution that has a module of ours, given its dotted name."""
    return f"flambeau-{target.split('.')[1]}"
