"""ROUGE and generated length from raw answers, as the judge takes them."""

import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from sampled_scores import check_whole_score

from suite.errors import MissingError
from workloads.common.text.references import write_references
from workloads.common.text.token_answers import pack_token_ids
from workloads.llama.examples import build_llama_examples
from workloads.llama.scoring import (
    ROUGE_METRICS,
    decode_news_answer,
    measure_each_rouge,
    sample_llama_scores,
    score_answers,
)
from workloads.llama.served_news import generate_serving_documents
from workloads.llama.vocabulary import END_ID, PAD_ID, encode_text, list_tokens

SUMMARIES = ["① Anna ② Ben", "① Clara", "① Dora ② Emil ③ Anna"]


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    write_references(tmp_path, SUMMARIES)
    return tmp_path


def pack_answers(*texts: str) -> dict[int, bytes]:
    return {
        sample: pack_token_ids([*encode_text(text), END_ID]) for sample, text in enumerate(texts)
    }


class WordShareScorer:
    """In place of rouge-score: the share of a reference's words that a text has."""

    asked: list[tuple[list[str], bool]] = []

    def __init__(self, metrics: list[str], use_stemmer: bool) -> None:
        self.metrics = metrics
        self.asked.append((metrics, use_stemmer))

    def score(self, reference: str, text: str) -> dict[str, Any]:
        words = reference.split()
        share = len([word for word in words if word in text.split()]) / len(words)
        return {metric: SimpleNamespace(fmeasure=share) for metric in self.metrics}


@pytest.fixture
def share_scorer(monkeypatch: pytest.MonkeyPatch) -> type[WordShareScorer]:
    """What is handed to the library, and what is made of its scores, without the library."""
    measure_each_rouge.cache_clear()
    package, module = ModuleType("rouge_score"), ModuleType("rouge_score.rouge_scorer")
    monkeypatch.setattr(WordShareScorer, "asked", [])
    module.RougeScorer = WordShareScorer  # type: ignore[attr-defined]
    package.rouge_scorer = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rouge_score", package)
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", module)
    return WordShareScorer


def test_each_answer_is_compared_with_its_reference(
    truth: Path, share_scorer: type[WordShareScorer]
) -> None:
    """The mean over the set, 0-1, of all four metrics, with words stemmed."""
    scores = score_answers(pack_answers("① Anna ② Emil", "① Clara", "① Anna"), truth)
    for metric in ROUGE_METRICS:
        assert scores[metric] == pytest.approx((3 / 4 + 1 + 2 / 6) / 3)
    assert share_scorer.asked == [(["rouge1", "rouge2", "rougeL", "rougeLsum"], True)]


def test_the_same_answers_are_scored_once(truth: Path, share_scorer: type[WordShareScorer]) -> None:
    """A report asks for them five times: half of the time of a card went into it."""
    answers = pack_answers(*SUMMARIES)
    assert score_answers(answers, truth) == score_answers(answers, truth)
    assert len(share_scorer.asked) == 1
    assert score_answers(answers | {1: b""}, truth)["rouge1"] == pytest.approx(2 / 3)
    assert len(share_scorer.asked) == 2, "other answers are no repetition"


def test_the_generated_length_is_that_of_the_texts(
    truth: Path, share_scorer: type[WordShareScorer]
) -> None:
    """In characters, as the reference counts; what stands behind an end token is not text."""
    answers = pack_answers(*SUMMARIES)
    answers[1] += pack_token_ids(encode_text("① Anna"))
    assert score_answers(answers, truth)["gen_len"] == sum(map(len, SUMMARIES))


def test_answers_that_were_cut_are_counted(
    truth: Path, share_scorer: type[WordShareScorer]
) -> None:
    """A network that never ends must not pass for one that writes long summaries."""
    answers = pack_answers(*SUMMARIES)
    assert score_answers(answers, truth)["unended"] == 0
    answers[2] = pack_token_ids(encode_text("① Dora " * 9))
    assert score_answers(answers, truth)["unended"] == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x05",
        b"\x05\x00\x00\x00\x00",
        struct.pack("<2i", -5, 9),
        struct.pack("<i", len(list_tokens())),
    ],
)
def test_malformed_answers_are_empty_ones(
    truth: Path, share_scorer: type[WordShareScorer], answer: bytes
) -> None:
    """No whole number of int32s, or tokens that there are not; as bad as no answer."""
    answers = pack_answers(*SUMMARIES)
    found = score_answers(answers | {1: answer}, truth)
    del answers[1]
    assert found == score_answers(answers, truth)
    assert found["rouge1"] == pytest.approx(2 / 3)


def test_answers_beyond_the_truth_count_nothing(
    truth: Path, share_scorer: type[WordShareScorer]
) -> None:
    answers = pack_answers(*SUMMARIES)
    assert score_answers(answers | {9: b"\x05\x00\x00\x00"}, truth) == score_answers(answers, truth)


def test_special_tokens_are_no_text() -> None:
    anna, clara = encode_text("Anna Clara")
    assert decode_news_answer([PAD_ID, anna, END_ID, clara]) == "Anna"
    assert decode_news_answer([len(list_tokens()) - 1]) != ""
    assert decode_news_answer([len(list_tokens())]) == ""


def test_damaged_truth_is_told(tmp_path: Path) -> None:
    """An error, not a low score."""
    with pytest.raises(OSError, match="references"):
        score_answers({}, tmp_path)
    write_references(tmp_path, [])
    with pytest.raises(ValueError, match="no references"):
        score_answers({}, tmp_path)


def test_the_missing_library_is_named(truth: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3 and what to install, not a traceback."""
    for name in ("rouge_score", "rouge_score.rouge_scorer"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingError, match="pip install rouge-score"):
        score_answers(pack_answers(*SUMMARIES), truth)


def compute_overlap_measure(common: int, generated: int, expected: int) -> float:
    """The F-measure."""
    if not common:
        return 0.0
    precision, recall = common / generated, common / expected
    return 2 * precision * recall / (precision + recall)


def list_pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(words, words[1:], strict=False))


def test_rouge_is_that_of_its_definition(truth: Path) -> None:
    """Lin 2004: common words, common pairs, longest common subsequence; marks are no words."""
    pytest.importorskip("rouge_score", reason="rouge-score is not installed")
    names = [["Anna", "Emil"], ["Clara"], ["Emil", "Dora", "Anna"]]
    wanted = [["Anna", "Ben"], ["Clara"], ["Dora", "Emil", "Anna"]]
    scores = score_answers(pack_answers(*map(" ".join, names)), truth)
    singles = [compute_overlap_measure(*counts) for counts in ((1, 2, 2), (1, 1, 1), (3, 3, 3))]
    subsequences = [
        compute_overlap_measure(*counts) for counts in ((1, 2, 2), (1, 1, 1), (2, 3, 3))
    ]
    pairs = [
        compute_overlap_measure(
            len(set(list_pairs(got)) & set(list_pairs(asked))),
            len(list_pairs(got)),
            len(list_pairs(asked)),
        )
        for got, asked in zip(names, wanted, strict=True)
    ]
    assert scores["rouge1"] == pytest.approx(sum(singles) / 3)
    assert scores["rouge2"] == pytest.approx(sum(pairs) / 3)
    assert scores["rougeL"] == pytest.approx(sum(subsequences) / 3)
    assert scores["rougeLsum"] == pytest.approx(sum(subsequences) / 3)


def test_scoring_imports_no_framework() -> None:
    """The judge runs where no torch is installed."""
    code = (
        "import sys; import workloads.llama.examples, workloads.llama.scoring; assert not {'torch',"
        " 'numpy', 'rouge_score'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_examples_show_article_reference_and_answer(tmp_path: Path) -> None:
    """The article only where it is podium's own."""
    documents = generate_serving_documents(3)
    write_references(tmp_path, [document.summary for document in documents])
    answers = pack_answers(documents[0].summary, "① Anna")
    shown = build_llama_examples(answers, tmp_path, True, tmp_path)
    first, second, third = (shown.example(sample) for sample in range(len(shown)))
    assert (first.source, first.expected) == (documents[0].article, documents[0].summary)
    assert first.right and first.quality == 1.0 and first.answered == documents[0].summary
    assert second.answered == "① Anna" and not second.right
    assert third.answered == "" and third.quality == 0.0
    assert build_llama_examples(answers, tmp_path, False, tmp_path).example(0).source == ""


def test_the_sampler_gives_the_score(truth: Path) -> None:
    """ROUGE of each summary."""
    pytest.importorskip("rouge_score")
    given = pack_answers(*SUMMARIES[:1], *SUMMARIES[:-1])
    check_whole_score(score_answers, sample_llama_scores, given, truth)
