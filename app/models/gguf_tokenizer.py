"""The tokenizer inside a GGUF file, rebuilt by the rules that its authors published.

A GGUF file holds the vocabulary and the merges, and only the *name* of the rules for cutting text
before the merges ("smollm"). What transformers makes of that name differs from release to release:
5.12 derives a decoder that looks like SentencePiece (the engine's grammar compiler then believes
that no token holds a newline, and constrained answers are aborted) and another end-of-turn token;
5.19 only leaves out that digits stand alone. Written out here, the rules are the same under all.
"""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

# GGUF's number for tokens that are markers and not text, such as <|im_end|>.
_CONTROL = 3


def write(metadata: dict[str, Any], folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja into `folder`."""
    tokens = metadata["tokenizer.ggml.tokens"]
    build(metadata).save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        # Not GPT2Tokenizer: that class builds its own rules and ignores those in tokenizer.json.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[metadata["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[metadata["tokenizer.ggml.unknown_token_id"]],
        "model_max_length": metadata["llama.context_length"],
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    (folder / "chat_template.jinja").write_text(metadata["tokenizer.chat_template"], "utf-8")


def build(metadata: dict[str, Any]) -> Tokenizer:
    """Build the byte-level BPE tokenizer that the rules named "smollm" describe.

    Raises:
        ValueError: the file asks for other rules, for which this would be silently wrong.
    """
    rules = (metadata["tokenizer.ggml.model"], metadata["tokenizer.ggml.pre"])
    if rules != ("gpt2", "smollm"):
        raise ValueError(f"unknown tokenizer rules {rules}")
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(BPE({token: number for number, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == _CONTROL
        ]
    )
    return tokenizer
