"""Whether a version fits a specifier such as `>=2.8,<3`.

`packaging` decides. Its import takes as long as the rest of a listing, though, so bounds on plain releases, which is
what plugins state in practice, are compared here, by the same rule.
"""

from __future__ import annotations

import re
from itertools import zip_longest

_BOUND = re.compile(r"\s*(>=|<)\s*([0-9]+(?:\.[0-9]+)*)\s*", re.ASCII)
# A release, perhaps with a local label: 2.13.0+cpu. Bounds without a label compare to what stands before it.
_RELEASE = re.compile(r"([0-9]+(?:\.[0-9]+)*)(?:\+[a-z0-9]+(?:[._-][a-z0-9]+)*)?", re.ASCII)


def satisfies(version: str, specifier: str) -> bool:
    """Whether a version, a pre-release too, fits.

    Raises:
        packaging.specifiers.InvalidSpecifier, packaging.version.InvalidVersion: one of them is malformed; ValueErrors.
    """
    release = _RELEASE.fullmatch(version)
    bounds = [_BOUND.fullmatch(clause) for clause in specifier.split(",")]
    if release is None or not all(bounds):
        from packaging.specifiers import SpecifierSet

        return SpecifierSet(specifier).contains(version, prereleases=True)
    return all(_reaches(release[1], bound[2]) == (bound[1] == ">=") for bound in bounds if bound)


def _reaches(release: str, bound: str) -> bool:
    """Whether a release is at or above a bound; absent parts are zeros."""
    pairs = zip_longest(map(int, release.split(".")), map(int, bound.split(".")), fillvalue=0)
    return next((have > wanted for have, wanted in pairs if have != wanted), True)
