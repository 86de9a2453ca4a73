"""The tokenizers, one file each; `flambeau.text.transforms` is where they are public."""
