"""The built-in model: converted once, by one of several starts, with the authors' tokenizer."""

import json
import random
import subprocess
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.models import smollm2
from app.settings import DEFAULT_MODEL, Settings
from tests.unit.model_folders import ROOT, run

SPECIAL = {0: "<|endoftext|>", 1: "<|im_start|>", 2: "<|im_end|>"}
TEXTS = [
    "",
    " ",
    "Hello, world! It's what they'd say: we'll see, I'm sure you're right.",
    "12345 6.78e-9 v2.0 2026-12-01T04:41:00Z 0x1F ½ ² ٣٤ Ⅷ １２３",
    "東京は日本の首都です。ひらがな、カタカナ、漢字　全角スペース。",
    "🙂 👩‍👩‍👧‍👦 🇯🇵 e\u0301 \u200b \u2028 \u0085 \ufeff",
    "a\nb\r\nc\n\n\n  indented\ttab   trailing   ",
    '{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
    "<|im_start|>user\nHi 42<|im_end|>\n<|im_start|>assistant\n<|endoftext|>",
    "<|im_start|> <|not_a_marker|> <repo_name>x<file_sep>y",
    "def f(x):\n    return x ** 2  # comment\n",
    "\x00\x01\x7f\xa0ÿ",
]


def random_texts(count: int) -> list[str]:
    """Texts of mixed scripts, spaces, digits and markers; the same in every run."""
    source = random.Random(0)
    pieces = [
        *"aZ '09.\n\t  -_",
        "the",
        " Tokyo",
        "東",
        "ñ",
        "🙂",
        "'ll",
        "\r\n",
        *SPECIAL.values(),
    ]
    whole_range = [
        chr(code) for code in range(0x20, 0x3000) if unicodedata.category(chr(code)) != "Cn"
    ]
    return [
        "".join(source.choice(source.choice((pieces, whole_range))) for _ in range(30))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models") / "cache"


@pytest.fixture(scope="module")
def starts(cache: Path) -> list[subprocess.CompletedProcess[str]]:
    """Two servers that start at the same moment with an empty cache."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda _: run(smollm2.NAME, cache), range(2)))


@pytest.fixture(scope="module")
def folder(starts: list[subprocess.CompletedProcess[str]]) -> Path:
    return Path(json.loads(starts[0].stdout)["path"])


@pytest.fixture(scope="module")
def probe(folder: Path) -> Any:
    """What tokenizer_probe.py says about all texts, asked once."""
    python = Settings().find_engine_python()
    gguf = subprocess.check_output(
        [
            python,
            "-c",
            f"import importlib.util as u; print(u.find_spec('{smollm2.MODULE}').origin)",
        ],
        text=True,
    )
    done = subprocess.run(
        [
            python,
            Path(__file__).with_name("tokenizer_probe.py"),
            folder,
            Path(gguf).parent / smollm2.GGUF,
        ],
        input=json.dumps(TEXTS + random_texts(300)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=110,
    )
    return json.loads(done.stdout)


def test_two_starts_at_once_convert_once(
    starts: list[subprocess.CompletedProcess[str]], cache: Path
) -> None:
    assert [done.returncode for done in starts] == [0, 0]
    answer = {"path": str(cache / smollm2.NAME), "served_model_name": smollm2.NAME}
    assert [json.loads(done.stdout) for done in starts] == [answer, answer]
    assert sum("converting" in done.stderr for done in starts) == 1
    assert sum("another process is preparing" in done.stderr for done in starts) == 1


def test_a_later_start_converts_nothing_and_a_damaged_cache_is_repaired(
    folder: Path, cache: Path
) -> None:
    weights = folder / "model.safetensors"
    before = (weights.stat().st_ino, weights.read_bytes())
    again = run(smollm2.NAME, cache)
    assert (again.returncode, again.stderr) == (0, "")
    assert weights.stat().st_ino == before[0]

    with weights.open("r+b") as file:
        file.seek(-1, 2)
        file.write(bytes([before[1][-1] ^ 1]))
    repaired = run(smollm2.NAME, cache)
    assert repaired.returncode == 0
    assert "damaged" in repaired.stderr
    assert weights.read_bytes() == before[1]


def test_the_folder_is_what_the_authors_publish(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_bytes())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert (config["bos_token_id"], config["eos_token_id"], config["pad_token_id"]) == (1, 2, 2)
    assert (config["rms_norm_eps"], config["rope_theta"]) == (1e-05, 100000)
    assert config["tie_word_embeddings"] is True
    assert {path.name for path in folder.iterdir()} == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_texts_become_the_tokens_that_the_published_rules_give(probe: Any) -> None:
    for reading in probe["texts"]:
        assert reading["ours"] == reading["reference"]


def test_tokens_become_the_text_again(probe: Any) -> None:
    for text, reading in zip(TEXTS + random_texts(300), probe["texts"], strict=True):
        assert reading["decoded"] == text
        for marker in SPECIAL.values():
            assert marker not in reading["without_markers"]


def test_a_marker_is_one_token_and_can_be_left_out(probe: Any) -> None:
    readings = dict(zip(TEXTS, probe["texts"], strict=False))
    marked = readings["<|im_start|>user\nHi 42<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"]
    assert [number for number in marked["ours"] if number in SPECIAL] == [1, 2, 1, 0]
    assert marked["without_markers"] == "user\nHi 42\nassistant\n"


def test_the_engine_sees_the_right_special_tokens_and_kind_of_vocabulary(probe: Any) -> None:
    assert probe["special"] == [SPECIAL[1], SPECIAL[2], SPECIAL[2], SPECIAL[0]]
    assert probe["special_ids"] == [1, 2, 2, 0]
    assert probe["size"] == 49152
    # As BYTE_FALLBACK every token with a newline would be masked in constrained answers.
    assert probe["grammar_vocabulary"] == "VocabType.BYTE_LEVEL"


def test_the_chat_template_is_the_authors_own(probe: Any) -> None:
    assert probe["chat"] == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_built_in_model_has_one_name_and_one_package() -> None:
    assert smollm2.NAME == DEFAULT_MODEL
    pins = (ROOT / "requirements/model-smollm2.txt").read_text().splitlines()
    assert [pin for pin in pins if not pin.startswith("#")] == [smollm2.PACKAGE]
