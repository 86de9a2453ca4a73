"""Who fills the rows of ids that are new: functions of the program, by name."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.tbe.ssd.ssd_config import EnrichmentPolicy

__all__ = ["provider_of", "register_enrichment_provider"]

Provider = Callable[[Tensor], Tensor]
_PROVIDERS: dict[str, Provider] = {}


def register_enrichment_provider(name: str, provider: Provider) -> None:
    """Have a function fill the rows of ids that are new.

    Args:
        name: `EnrichmentPolicy.provider_name` of the tables that it fills.
        provider: gives (ids, columns) for (ids,) int64.
    """
    _PROVIDERS[name] = provider


def provider_of(policy: EnrichmentPolicy | None) -> Provider:
    """The function of a policy.

    Raises:
        ValueError: there is none.
    """
    if policy is None:
        raise OptionError("the tables have no enrichment_policy; give one in their KVZCHParams.")
    if policy.provider_name not in _PROVIDERS:
        raise OptionError(
            f"no provider {policy.provider_name!r} fills new rows; call register_enrichment_provider for it. There "
            f"are {sorted(_PROVIDERS)}."
        )
    return _PROVIDERS[policy.provider_name]
