"""Weights of the language identifier; they are part of the package and need no network."""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["Language_Identifier_Weights"]

_LANGUAGES = (
    "Czech Danish German English Spanish Finnish French Hungarian Indonesian Italian Japanese "
    "Dutch Polish Portuguese Romanian Russian Serbian Swedish Turkish Ukrainian Vietnamese Chinese"
)


class Language_Identifier_Weights(WeightsEnum):
    """Weights of `models.language_identifier`."""

    MANPAGES_V1 = Weights(
        url="package:flambeau.text/weights/embedded/language_identifier-manpages_v1-760aa579.safetensors",
        transforms=lazy("flambeau.text.models.language_identifier:ByteWindows"),
        meta={
            "num_params": 217_110,
            "categories": _LANGUAGES.split(),
            "recipe": "text/recipes/language_identifier.py",
            "license": "BSD-3-Clause",
            "dataset": "Manual pages of Debian 12: manpages, manpages-l10n, manpages-ja, manpages-tr, manpages-zh",
            "_metrics": {"Debian's manual pages, 1,082 held-out paragraphs": {"acc@1": 88.632}},
            "_ops": 0.01,
            "_file_size": 0.417,
            "_docs": (
                "Trained on manual pages in 22 languages, measured on paragraphs of pages that no language of the "
                "training part has. Languages that are close to each other, and texts of a few words, are confused "
                "most. The texts are free software under the GPL, BSD and similar licences."
            ),
        },
        sha256="760aa57965b72545a9bc9556d9761944c26812352b36bd24a64ef4b2518516c1",
        size=437_764,
    )
    DEFAULT = MANPAGES_V1
