"""Language models and tokenizers made on the spot: real ones of transformers, tiny, with random weights."""

from __future__ import annotations

from typing import Any

__all__ = ["tiny_causal_lm", "tiny_tokenizer"]

_SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|header_start|>", "<|header_end|>", "<|eot|>",
)  # fmt: skip
_CORPUS = (
    "system user assistant tool",
    "You are a helpful assistant.",
    "What is the capital of France? Paris.",
    "0 1 2 3 4",
)


def tiny_tokenizer(name: str = "tiny-qwen", padding_side: str = "left", vocab_size: int = 320) -> Any:
    """A byte-level BPE tokenizer, trained here, that writes and reads any text.

    Args:
        name: of its model, by which chat templates are chosen.
        padding_side: "left" or "right".
        vocab_size: at most; 256 bytes and the special tokens of chat templates are always among them.

    Returns:
        A `transformers.PreTrainedTokenizerFast`, which pads with "<|endoftext|>".
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=list(_SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(_CORPUS, trainer)
    made: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token=_SPECIAL[0], bos_token=_SPECIAL[0], pad_token=_SPECIAL[0],
        additional_special_tokens=list(_SPECIAL[1:]), padding_side=padding_side,
    )  # fmt: skip
    made.name_or_path = name
    return made


def tiny_causal_lm(tokenizer: Any, seed: int = 0, **config: Any) -> Any:
    """A Qwen 2 of some thousand random parameters, for the tokens of `tokenizer`.

    Args:
        tokenizer: whose tokens it knows.
        seed: of the weights; the global generators are left as they were.
        config: further fields of `transformers.Qwen2Config`.

    Returns:
        A `transformers.Qwen2ForCausalLM` in evaluation mode, float32.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    fields: dict[str, Any] = {
        "vocab_size": len(tokenizer), "max_position_embeddings": 512, "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": False,
        "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id, "initializer_range": 0.5,
    }  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Any = Qwen2ForCausalLM(Qwen2Config(**fields | config))
    return model.eval()
