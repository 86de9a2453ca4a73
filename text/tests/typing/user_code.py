"""Typical user code, which must type-check as it stands; it is never run."""

from __future__ import annotations

from torch import Tensor

from flambeau.text import functional
from flambeau.text.data import bleu_score, get_tokenizer
from flambeau.text.models import RobertaClassificationHead, RobertaEncoderConf, RobertaModel, T5Conf, T5Model
from flambeau.text.prototype.generate import GenerationUtils
from flambeau.text.transforms import GPT2BPETokenizer, Sequential, ToTensor, VocabTransform
from flambeau.text.vocab import Vocab, build_vocab_from_iterator


def tokenize(encoder: str, merges: str, texts: list[str]) -> tuple[list[int], list[list[int]], Tensor]:
    tokenizer = GPT2BPETokenizer(encoder, merges)
    tokenizer.add_special_tokens({"eos_token": "<|endoftext|>"})
    differences: list[str] = tokenizer.to_tokenizer_json("tokenizer.json")
    again: GPT2BPETokenizer = GPT2BPETokenizer.from_tokenizer_json("tokenizer.json")
    text: str = again.decode(tokenizer.encode_ids(" ".join(differences)))
    spans: list[tuple[int, int]] = tokenizer.encode_offsets(text).spans
    assert spans
    return tokenizer.encode_ids(text), tokenizer.encode_ids(texts), tokenizer.to_tensor(texts, padding_value=1)


def words(texts: list[str]) -> Vocab:
    split = get_tokenizer("basic_english")
    vocabulary = build_vocab_from_iterator(map(split, texts), specials=["<unk>"], default="<unk>")
    indices: list[int] = vocabulary.lookup_indices(["a"])
    token: str = vocabulary.lookup_token(indices[0])
    steps = Sequential(VocabTransform(vocabulary), ToTensor(padding_value=0))
    score: float = bleu_score([[token]], [[["a"]]], max_n=1, weights=[1.0])
    cut: list[list[int]] = functional.truncate([[1, 2], [3]], 1)
    assert steps(cut) and score
    return vocabulary


def models(tokens: Tensor) -> Tensor:
    small = RobertaEncoderConf(100, 32, 64, num_attention_heads=4, num_encoder_layers=2)
    logits: Tensor = RobertaModel(small, RobertaClassificationHead(2, 32))(tokens)
    writer = GenerationUtils(T5Model(T5Conf(linear_head=True)).eval())
    ids: Tensor = writer.generate(tokens, num_beams=2, max_length=5)
    return ids + logits.argmax(1)
