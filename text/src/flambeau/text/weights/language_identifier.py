"""Weights of the language identifier; they are part of the package and need no network."""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["Language_Identifier_Weights"]

_LANGUAGES = (
    "Afrikaans Amharic Arabic Assamese Azerbaijani Belarusian Bulgarian Bengali Tibetan Breton Catalan Czech Welsh "
    "Danish German Dzongkha Greek English Esperanto Spanish Estonian Basque Persian Finnish French Irish "
    "Scottish_Gaelic Galician Gujarati Hebrew Hindi Croatian Hungarian Armenian Indonesian Icelandic Italian "
    "Japanese Georgian Kazakh Khmer Kannada Korean Kurdish Lao Lithuanian Latvian Macedonian Malayalam Mongolian "
    "Marathi Malay Burmese Norwegian Nepali Dutch Occitan Odia Punjabi Polish Portuguese Romanian Russian Sinhala "
    "Slovak Slovenian Albanian Serbian Swedish Swahili Tamil Telugu Tajik Thai Filipino Turkish Uyghur Ukrainian "
    "Urdu Uzbek Vietnamese Chinese Zulu"
)


class Language_Identifier_Weights(WeightsEnum):
    """Weights of `models.language_identifier`."""

    DEBIAN_V1 = Weights(
        url="package:flambeau.text/weights/embedded/language_identifier-debian_v1-1b860b2c.safetensors",
        transforms=lazy("flambeau.text.models.language_identifier:CharacterWindows"),
        meta={
            "num_params": 468_212,
            "categories": [*(name.replace("_", " ") for name in _LANGUAGES.split()), "unknown"],
            "recipe": "text/recipes/language_identifier.py",
            "license": "BSD-3-Clause",
            "dataset": "Debian 12: translations of programs, help and manual pages, spelling checkers' lists of words",
            "_metrics": {
                "fiction, of no kind that training has seen: 658 texts in 31 languages": {"acc@1": 93.769},
                "what a program tells children, of no kind that training has seen: 1,795 texts in 74 languages": {
                    "acc@1": 95.655
                },
                "manual pages that training has not seen: 550 texts in 22 languages": {"acc@1": 96.727},
                "unseen languages, to be unknown: 710 texts in 29 languages": {"acc@1": 59.859},
            },
            "_ops": 0.01,
            "_file_size": 0.894,
            "_docs": (
                "Names 83 languages, or says unknown. Trained on messages of programs, help and manual pages, and "
                "lists of words; measured on the first 120 characters of texts of other kinds: the story of a game "
                "(Battle for Wesnoth: Liberty), what Tux Paint tells children, and held-out manual pages. Of texts "
                "in languages that training has never seen 60 % are called unknown, and 2.4 % are given a wrong "
                "name with more than 90 %: most are taken for a close relative (Low German for German, Limburgish "
                "for Dutch). Serbian in Latin letters is often taken for Croatian, Malay for Indonesian, Macedonian "
                "for Bulgarian. Texts of one to five words, and Khmer without zero-width spaces, are less sure. The "
                "texts are free software under the GPL, LGPL, MPL, BSD and similar licences."
            ),
        },
        sha256="1b860b2c5be8ef334405ee1635018645bbbcae317b7cd25e8821843baada8f9f",
        size=937_136,
    )
    DEFAULT = DEBIAN_V1
