import pytest
import torch

from flambeau.data.tensordict import TensorDict, lazy_stack


def build(seed: int = 0) -> TensorDict:
    generator = torch.Generator().manual_seed(seed)
    return TensorDict(
        {
            "a": torch.rand(4, 3, generator=generator),
            "b": {
                "c": torch.rand(4, 3, 2, generator=generator),
                "d": torch.randint(7, (4, 3), generator=generator),
            },
        },
        batch_size=[4, 3],
    )


@pytest.fixture
def td() -> TensorDict:
    """Batch size [4, 3]: a float leaf, and a nested float one with a feature dimension and an integer one."""
    return build()


@pytest.fixture
def lazy():
    """A lazy stack of three, along the middle dimension: batch size [4, 3, 3]."""
    return lazy_stack([build(seed) for seed in range(3)], 1)
