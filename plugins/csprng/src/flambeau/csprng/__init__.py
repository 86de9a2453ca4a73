"""Cryptographically secure random numbers and AES for PyTorch's tensors.

A generator of `create_random_device_generator` goes wherever torch takes `generator=`: `torch.rand(3, generator=g)`,
`tensor.random_(generator=g)`, and so on; the README lists every call. `encrypt` and `decrypt` work on tensors' bytes.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports
from flambeau.core.late_operators import announce_operators
from flambeau.csprng.ops._announced import OPERATORS

__version__ = "0.1.0"
git_version = "Unknown"
"""Upstream: the commit that a build was made of. Builds of this package do not record it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.csprng.ciphers import decrypt as decrypt
    from flambeau.csprng.ciphers import encrypt as encrypt
    from flambeau.csprng.ciphers import supports_cuda as supports_cuda
    from flambeau.csprng.errors import CipherError as CipherError
    from flambeau.csprng.errors import GeneratorError as GeneratorError
    from flambeau.csprng.errors import KeyReuseWarning as KeyReuseWarning
    from flambeau.csprng.errors import UnsupportedCallError as UnsupportedCallError
    from flambeau.csprng.generators import MersenneTwisterGenerator as MersenneTwisterGenerator
    from flambeau.csprng.generators import RandomDeviceGenerator as RandomDeviceGenerator
    from flambeau.csprng.generators import aes128_key_tensor as aes128_key_tensor
    from flambeau.csprng.generators import create_mt19937_generator as create_mt19937_generator
    from flambeau.csprng.generators import create_random_device_generator as create_random_device_generator

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "ciphers": ("decrypt", "encrypt", "supports_cuda"),
        "errors": ("CipherError", "GeneratorError", "KeyReuseWarning", "UnsupportedCallError"),
        "generators": (
            "MersenneTwisterGenerator",
            "RandomDeviceGenerator",
            "aes128_key_tensor",
            "create_mt19937_generator",
            "create_random_device_generator",
        ),
    },
    submodules=("ops",),
)

# Code that calls operators by their names in torch's registry finds them without another import.
announce_operators("flambeau_csprng", OPERATORS)
