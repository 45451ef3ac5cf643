"""A llama-architecture GGUF file as a Hugging Face model folder, in bfloat16.

transformers reads GGUF files too, but this one's tokenizer not reliably (see `gguf_tokenizer`).
What is written is what the model's authors publish: the same file names and tensor names.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from tqdm import tqdm

if TYPE_CHECKING or __package__:
    from app.models import gguf_tokenizer
else:
    import gguf_tokenizer

# GGUF's name of a tensor, in and outside of the numbered blocks -> Hugging Face's.
_OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert(gguf: Path, folder: Path) -> None:
    """Write config, tokenizer, chat template and weights of `gguf` into `folder`."""
    reader = GGUFReader(gguf)
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    special_ids = {
        f"{name}_token_id": metadata[f"tokenizer.ggml.{key}_token_id"]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
    }
    tied = all(tensor.name != "output.weight" for tensor in reader.tensors)
    _write_json(
        folder / "config.json", _config(metadata) | special_ids | {"tie_word_embeddings": tied}
    )
    _write_json(folder / "generation_config.json", special_ids)
    gguf_tokenizer.write(metadata, folder)
    weights = dict(_weights(reader, metadata))
    target = folder / "model.safetensors"
    save_file(weights, target, metadata={"format": "pt"})
    # It comes out readable by its owner alone, but one user may fill a cache that another reads.
    target.chmod(0o644)


def _config(metadata: dict[str, Any]) -> dict[str, Any]:
    heads = metadata["llama.attention.head_count"]
    width = metadata["llama.embedding_length"]
    # Stored as float32; the shortest decimal of that precision is the published 1e-05.
    epsilon = float(f"{metadata['llama.attention.layer_norm_rms_epsilon']:.7g}")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": metadata["llama.feed_forward_length"],
        "num_hidden_layers": metadata["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        "head_dim": width // heads,
        "max_position_embeddings": metadata["llama.context_length"],
        "rms_norm_eps": epsilon,
        "rope_theta": metadata["llama.rope.freq_base"],
        "vocab_size": metadata["llama.vocab_size"],
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
    }


def _weights(reader: Any, metadata: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    heads = {
        "attn_q": metadata["llama.attention.head_count"],
        "attn_k": metadata["llama.attention.head_count_kv"],
    }
    progress = tqdm(
        reader.tensors, desc="converting", unit=" tensors", disable=not sys.stderr.isatty()
    )
    for tensor in progress:
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        *block, name, kind = tensor.name.split(".")
        if block:
            target = f"model.layers.{block[1]}.{_IN_BLOCK[name]}.{kind}"
        else:
            target = f"{_OUTER[name]}.{kind}"
        if name in heads:
            weight = _split_halves(weight, heads[name])
        yield target, weight.to(torch.bfloat16).contiguous()


def _split_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo GGUF's order of the rows of a query or key projection.

    llama.cpp rotates neighbouring rows of a head (0 with 1, 2 with 3, ...), Hugging Face row i with
    row i + half of the head. GGUF files store the rows in llama.cpp's order.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
