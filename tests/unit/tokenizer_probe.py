"""Run by the engine's Python: how two tokenizers read the same texts. Not a test by itself.

    tokenizer_probe.py MODEL_FOLDER GGUF < TEXTS_AS_JSON

`ours` is the converted tokenizer, loaded as the engine loads it. `reference` is transformers' own
GPT2Tokenizer, the class that the model's authors name in their tokenizer_config.json, on the
vocabulary and merges of the GGUF file, under the one rule that they add to it: every digit (any
character of Unicode's number categories) stands alone.
"""

import json
import re
import sys

import sglang_plaincpu
from gguf import GGUFReader

sglang_plaincpu.register()  # transformers imports torchvision

import xgrammar  # noqa: E402
from transformers import AutoTokenizer, GPT2Tokenizer  # noqa: E402

folder, gguf = sys.argv[1:]
fields = GGUFReader(gguf).fields
tokens = fields["tokenizer.ggml.tokens"].contents()
kinds = fields["tokenizer.ggml.token_type"].contents()
markers = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
reference = GPT2Tokenizer(
    vocab={token: number for number, token in enumerate(tokens)},
    merges=[tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()],
)
ours = AutoTokenizer.from_pretrained(folder)
digits = "".join(filter(str.isnumeric, map(chr, range(0x3000))))
alone = re.compile(f"({'|'.join(map(re.escape, markers))}|[{digits}])")


def reference_ids(text: str) -> list[int]:
    ids = []
    for piece in alone.split(text):
        ids += [tokens.index(piece)] if piece in markers else reference(piece)["input_ids"]
    return ids


answer = {
    "texts": [
        {
            "ours": (ids := ours(text)["input_ids"]),
            "reference": reference_ids(text),
            "decoded": ours.decode(ids),
            "without_markers": ours.decode(ids, skip_special_tokens=True),
        }
        for text in json.load(sys.stdin)
    ],
    "special": [ours.bos_token, ours.eos_token, ours.pad_token, ours.unk_token],
    "special_ids": [ours.bos_token_id, ours.eos_token_id, ours.pad_token_id, ours.unk_token_id],
    "size": len(ours),
    "grammar_vocabulary": str(xgrammar.TokenizerInfo.from_huggingface(ours).vocab_type),
    "chat": ours.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False
    ),
}
json.dump(answer, sys.stdout)
