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
        url="package:flambeau.text/weights/embedded/language_identifier-manpages_v1-4d61e7b2.safetensors",
        transforms=lazy("flambeau.text.models.language_identifier:CharacterWindows"),
        meta={
            "num_params": 373_590,
            "categories": _LANGUAGES.split(),
            "recipe": "text/recipes/language_identifier.py",
            "license": "BSD-3-Clause",
            "dataset": "Manual pages of Debian 12: manpages, manpages-l10n, manpages-ja, manpages-tr, manpages-zh",
            "_metrics": {"Debian's manual pages, 1,082 held-out paragraphs": {"acc@1": 97.505}},
            "_ops": 0.01,
            "_file_size": 0.713,
            "_docs": (
                "Trained on manual pages in 22 languages, measured on the first 120 characters of paragraphs out of "
                "pages that no language of the training part has; most of what is counted as wrong there is English "
                "that translators left. Texts of one or two words are less sure. The texts are free software under "
                "the GPL, BSD and similar licences."
            ),
        },
        sha256="4d61e7b2e341a3e451344cc40991ba64f3e713c41df72c329dac749ac6303015",
        size=747_804,
    )
    DEFAULT = MANPAGES_V1
