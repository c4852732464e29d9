"""A tiny network with random weights, its tokenizer, and transformers to compare with."""

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import workloads.llama
from suite import plugins, registry
from workloads.common.detection import torchvision_import
from workloads.llama.checkpoint import LlamaTokens
from workloads.llama.model import LlamaNetwork
from workloads.llama.shape import LlamaShape, RopeScaling
from workloads.llama.weights import export_llama_checkpoint

ROW_FILE = Path(workloads.llama.__file__).parent / "podium-v1.toml"
BEGIN, END, OTHER_END = 0, 1, 2
SHAPE = LlamaShape(
    layers=3,
    width=48,
    heads=6,
    key_value_heads=2,
    feed_forward=80,
    vocabulary=64,
    context=96,
    rope_theta=500_000.0,
    rope_scaling=RopeScaling(factor=8.0, low=1.0, high=4.0, old_context=32),
)
TEMPLATE = "{{ bos_token }}{% for each in messages %}{{ each['content'] }}{% endfor %}"


def build_network(shape: LlamaShape = SHAPE) -> LlamaNetwork:
    """Weights large enough that logits differ clearly."""
    torch.manual_seed(5)
    return LlamaNetwork(shape, 0.25).eval()


def write_tokenizer(words: int = SHAPE.vocabulary) -> bytes:
    """One token for each word, as the library writes it."""
    names = ["<begin>", "<end>", "<stop>", *(f"w{number}" for number in range(3, words))]
    added = [
        {
            "id": number,
            "content": names[number],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number in (BEGIN, END, OTHER_END)
    ]
    model = {
        "type": "WordLevel",
        "vocab": {name: number for number, name in enumerate(names)},
        "unk_token": "<stop>",
    }
    document: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    return json.dumps(document).encode()


def build_tokens(words: int = SHAPE.vocabulary) -> LlamaTokens:
    """Two tokens end an answer, as in Llama 3.1."""
    return LlamaTokens(
        tokenizer=write_tokenizer(words),
        begin=BEGIN,
        ends=(END, OTHER_END),
        chat_template=TEMPLATE,
    )


def write_indexed_tokens(
    prefix: Path,
    texts: Sequence[Sequence[int]],
    *,
    code: int = 4,
    marks: Sequence[int] | None = None,
) -> Path:
    """Write Megatron's files of a corpus byte by byte; one text is one document unless `marks` say
    otherwise.
    """
    form, width = {4: ("i", 4), 8: ("H", 2)}[code]
    if marks is None:
        marks = range(len(texts) + 1)
    lengths = [len(text) for text in texts]
    pointers = [width * sum(lengths[:number]) for number in range(len(texts))]
    content = b"MMIDIDX\x00\x00" + struct.pack("<Q", 1) + struct.pack("<B", code)
    content += struct.pack("<Q", len(texts)) + struct.pack("<Q", len(marks))
    content += struct.pack(f"<{len(texts)}i", *lengths)
    content += struct.pack(f"<{len(texts)}q", *pointers)
    content += struct.pack(f"<{len(marks)}q", *marks)
    prefix.with_name(f"{prefix.name}.idx").write_bytes(content)
    tokens = [token for text in texts for token in text]
    prefix.with_name(f"{prefix.name}.bin").write_bytes(
        struct.pack(f"<{len(tokens)}{form}", *tokens)
    )
    return prefix


@pytest.fixture
def network() -> LlamaNetwork:
    """The tiny network."""
    return build_network()


@pytest.fixture
def exported(network: LlamaNetwork, tmp_path: Path) -> Path:
    """Its checkpoint."""
    folder = tmp_path / "exported"
    folder.mkdir()
    export_llama_checkpoint(network.state_dict(), SHAPE, build_tokens(), folder)
    return folder


@pytest.fixture
def sharded(network: LlamaNetwork, tmp_path: Path) -> Path:
    """The same in shards of 20 kB."""
    folder = tmp_path / "sharded"
    folder.mkdir()
    export_llama_checkpoint(network.state_dict(), SHAPE, build_tokens(), folder, 20_000)
    return folder


@pytest.fixture(scope="session")
def transformers() -> ModuleType:
    """The reference; skips where it is not installed."""
    assert torchvision_import.torchvision  # transformers imports it, and it may not load alone
    return pytest.importorskip("transformers", reason="transformers (extra test) is not installed")


ARTICLES = (
    "Ana Silva said on Monday that the \u20ac5 fare stays. Trains run every hour.",
    "The mayor {opened} a bridge.\nIt cost 3 million. Nobody was there.",
    "Rain fell in Z\u00fcrich \u2014 for days, and then it stopped. \U0001f327 Farmers were glad.",
)
SUMMARIES = ("The fare stays .\nTrains run hourly .", "A bridge was opened.", "It rained.")


TEMPLATE_OF_ARTICLES = (
    "In very brief sentences, summarize the following news article. Only return the summary."
    "\nArticle: {input}\nSummary: "
)
"""mlcommons/inference, language/llama3.1-8b, download_cnndm.py."""


def train_byte_level_tokenizer() -> bytes:
    """A tokenizer of Llama 3.1's kind with a small vocabulary, as its library writes it."""
    library = pytest.importorskip("tokenizers")
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([*ARTICLES, *SUMMARIES, TEMPLATE_OF_ARTICLES], trainer)
    tokenizer.post_processor = library.processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)]
    )
    content: str = tokenizer.to_str()
    return content.encode()


def write_articles_file(folder: Path, tokenizer: Any, **changes: Any) -> list[dict[str, Any]]:
    """Write `cnn_eval.json` as download_cnndm.py of mlcommons/inference does; the first record
    with changes.
    """
    records = [
        {
            "instruction": {"llama": TEMPLATE_OF_ARTICLES},
            "input": article,
            "tok_input": tokenizer.encode(TEMPLATE_OF_ARTICLES.replace("{input}", article)).ids,
            "output": summary,
        }
        for article, summary in zip(ARTICLES, SUMMARIES, strict=True)
    ]
    records[0] |= changes
    text = json.dumps(records, indent=4, ensure_ascii=False)
    (folder / "cnn_eval.json").write_text(text, "utf-8")
    return records


@pytest.fixture
def byte_level() -> Any:
    """The library's own tokenizer, to compare with."""
    content = train_byte_level_tokenizer()
    return pytest.importorskip("tokenizers").Tokenizer.from_str(content.decode())


@pytest.fixture
def forget_sentences(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Takes NLTK's data away, and what it has loaded from data."""
    loaded = pytest.importorskip("nltk.tokenize")._get_punkt_tokenizer
    data = pytest.importorskip("nltk.data")

    def forget() -> None:
        monkeypatch.setattr(data, "path", [])
        loaded.cache_clear()

    yield forget
    loaded.cache_clear()


@pytest.fixture
def sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget_sentences: Callable[[], None]
) -> None:
    """NLTK's model of sentences, in the form of punkt_tab, trained on a few texts."""
    forget_sentences()
    punkt = pytest.importorskip("nltk.tokenize.punkt")
    data = pytest.importorskip("nltk.data")
    trainer = punkt.PunktTrainer(" ".join([*ARTICLES, *SUMMARIES]))
    folder = tmp_path / "nltk" / "tokenizers" / "punkt_tab" / "english"
    folder.parent.mkdir(parents=True)
    monkeypatch.setattr(data, "path", [str(tmp_path / "nltk")])
    punkt.save_punkt_params(trainer.get_params(), dir=str(folder))


@pytest.fixture
def published(tmp_path: Path, byte_level: Any, sentences: None) -> Path:
    """A folder as a user has it: C4, articles, tokenizer."""
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes(train_byte_level_tokenizer())
    write_articles_file(folder, byte_level)
    for name, count in (
        ("c4-train.en_6_text_document", 400),
        ("c4-validation-91205-samples.en_text_document", 200),
    ):
        texts = [byte_level.encode(f"{ARTICLES[n % 3]} {n}").ids for n in range(count)]
        write_indexed_tokens(folder / name, texts)
    return folder


def forget_registered() -> None:
    """Let the registry look again."""
    for each in vars(registry).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The workload as pyproject.toml registers it, also where it does not yet."""
    select = plugins.select_entry_points

    def select_with_llama(group: str) -> list[EntryPoint]:
        found = [*select(group)]
        if group == registry.WORKLOAD_GROUP and "llama" not in {each.name for each in found}:
            point = EntryPoint("llama", "workloads.llama:WORKLOAD", group)
            found.append(point._for(found[0].dist))  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(plugins, "select_entry_points", select_with_llama)
    forget_registered()
    yield
    forget_registered()
