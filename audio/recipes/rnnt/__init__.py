"""Training of transducers on LibriSpeech; `librispeech_emformer_rnnt.py` is the command."""
