"""The user's data: tokenizer, articles and C4; a training, a serving and a score of each."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from testbed import PlainEngine

from suite import registry
from suite.dataset import StaleError
from suite.errors import MissingError, RequestError
from suite.rounds import Profile, Round
from suite.rounds.load import build_round
from suite.rounds.settings import resolve_settings
from suite.terms import Precision
from suite.workload import Run
from workloads.common.text.token_answers import pack_token_ids
from workloads.llama.examples import build_llama_examples
from workloads.llama.inference import LlamaInference
from workloads.llama.published.articles import ARTICLE_PROMPT
from workloads.llama.published.tokenizer import (
    parse_published_tokenizer,
    read_published_tokenizer,
)
from workloads.llama.scoring import score_answers
from workloads.llama.serving_set import load_serving_set
from workloads.llama.survey import LlamaDataSet
from workloads.llama.training import LlamaTraining, WeightedSequences
from workloads.llama.weights import load_llama_checkpoint

from .conftest import ARTICLES, ROW_FILE, write_articles_file, write_indexed_tokens

MakeRun = Callable[..., Run]
LENGTH = 32
SMALL = {
    "model.layers": 1,
    "model.width": 32,
    "model.heads": 4,
    "model.key_value_heads": 2,
    "model.feed_forward": 48,
    "global_batch_size": 4,
    "max_sequence_length": LENGTH,
    "opt_learning_rate_warmup_steps": 2,
    "opt_base_learning_rate": 1e-2,
}
TRAIN_NAME = "c4-train.en_6_text_document"


class TorchNamedEngine(PlainEngine):
    """Stands for PyTorch's."""

    name = "torch"


@pytest.fixture(scope="session")
def row_round() -> Round:
    """The round with the row, whether the workload is registered or not, on few sequences."""
    texts = [text for text in registry.collect_round_texts("podium-v1") if "[llama]" not in text]
    whole = build_round("podium-v1", [*texts, ROW_FILE.read_text()])
    benchmark = whole.benchmark("llama")
    quick = replace(benchmark.training[Profile.QUICK], train_samples=24, eval_samples=8)
    few = replace(benchmark, training={**benchmark.training, Profile.QUICK: quick})
    return replace(whole, benchmarks={**whole.benchmarks, "llama": few})


@pytest.fixture
def make_run(tmp_path: Path, published: Path, row_round: Round) -> MakeRun:
    """A run of `quick` with a small network."""

    def make(*, serving: bool = False, **settings: Any) -> Run:
        asked = SMALL | {key.replace("__", "."): value for key, value in settings.items()}
        return Run(
            round=row_round,
            profile=Profile.QUICK,
            seed=7,
            data=published,
            cache=tmp_path / "cache",
            framework="torch",
            input="default",
            device="cpu",
            precision=Precision.FP32,
            threads=1,
            settings=resolve_settings(row_round, "llama", Profile.QUICK, asked, serving=serving),
        )

    return make


def test_ids_become_the_text_that_the_library_makes(published: Path, byte_level: Any) -> None:
    """Letters of several bytes, special tokens, and an answer that is cut within a letter."""
    tokenizer = read_published_tokenizer(published)
    for article in ARTICLES:
        ids = byte_level.encode(article).ids
        assert ids[0] == tokenizer.begin
        assert tokenizer.decode_ids(ids) == byte_level.decode(ids) == article
    rain = byte_level.encode("\U0001f327", add_special_tokens=False).ids
    assert tokenizer.decode_ids(rain[:2]) == byte_level.decode(rain[:2])
    assert tokenizer.vocabulary == byte_level.get_vocab_size()
    assert tokenizer.decode_answer([*rain, tokenizer.ends[1], *rain]) == "\U0001f327"
    assert tokenizer.decode_ids([tokenizer.vocabulary]) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"decoder": {"type": "WordPiece"}}, "its decoder is not ByteLevel"),
        ({"decoder": None}, "its decoder is not ByteLevel"),
        ({"decoder": 5}, "no tokenizer with a known decoder"),
        ({"added_tokens": []}, None),
        ({"model": {}}, "no tokenizer with numbered tokens"),
    ],
)
def test_other_tokenizers_are_refused(
    byte_level: Any, change: dict[str, Any], said: str | None
) -> None:
    document = json.loads(byte_level.to_str()) | change
    content = json.dumps(document).encode()
    if said is None:  # special tokens are in the vocabulary as well
        assert parse_published_tokenizer(content, "here").begin == 0
        return
    with pytest.raises(RequestError, match=f"here: .*{said}"):
        parse_published_tokenizer(content, "here")


def test_a_tokenizer_without_llamas_tokens_is_refused(byte_level: Any) -> None:
    content = byte_level.to_str().replace("<|begin_of_text|>", "<s>").encode()
    with pytest.raises(RequestError, match=r"lacks <\|begin_of_text\|>.* not Llama 3.1's"):
        parse_published_tokenizer(content, "here")


def test_the_survey_counts_and_hashes_every_file(make_run: MakeRun, published: Path) -> None:
    data_set = LlamaDataSet(make_run())
    survey = data_set.survey()
    assert set(survey.sha256) == set(data_set.parts) == {each.name for each in published.iterdir()}
    assert survey.samples["articles"] == 3
    assert survey.found["documents"] == 400
    tokens = (published / f"{TRAIN_NAME}.bin").stat().st_size // 4
    assert survey.samples["train"] == (tokens - 1) // LENGTH
    assert not survey.remarks
    data_set.check(survey.found)


def test_articles_alone_can_be_served_and_not_trained_on(
    make_run: MakeRun, published: Path
) -> None:
    """C4 has 84 GB, and an imported checkpoint needs none of it."""
    for path in published.glob("c4-*"):
        path.unlink()
    run = make_run()
    survey = LlamaDataSet(run).survey()
    assert survey.samples == {"articles": 3}
    assert "has no C4 to train on" in survey.remarks[0]
    found = replace(run, found=survey.found)
    assert len(load_serving_set(found).prompts) == 3
    with pytest.raises(RequestError, match=rf"no C4 to train on, which is {TRAIN_NAME}.idx"):
        LlamaTraining(found)


@pytest.mark.parametrize("name", ["tokenizer.json", "cnn_eval.json", f"{TRAIN_NAME}.idx"])
def test_a_missing_file_is_named(make_run: MakeRun, published: Path, name: str) -> None:
    (published / name).unlink()
    with pytest.raises(RequestError, match=f"{name}: .*(No such file|readable)"):
        LlamaDataSet(make_run()).survey()


def test_prompts_that_the_trained_network_could_not_read_are_refused(
    make_run: MakeRun, published: Path, byte_level: Any
) -> None:
    """Before the clock, not when the reference accuracy is scored after days."""
    long = ARTICLES[0] * 40
    template = ARTICLE_PROMPT.replace("{input}", long)
    ids = byte_level.encode(template).ids
    write_articles_file(published, byte_level, input=long, tok_input=ids)
    with pytest.raises(RequestError, match=rf"has {len(ids):,} tokens, .* of 128 reads 127"):
        LlamaTraining(make_run())


def test_too_short_a_validation_split_is_refused(make_run: MakeRun, published: Path) -> None:
    """Fewer sequences would be another, easier or harder, evaluation."""
    name = "c4-validation-91205-samples.en_text_document"
    write_indexed_tokens(published / name, [[1] * (LENGTH * 7 + 1)])
    data_set = LlamaDataSet(make_run())
    with pytest.raises(RequestError, match="validation split has 7 sequences; needed: 8"):
        data_set.check(data_set.survey().found)


def test_a_token_outside_the_tokenizer_is_refused(make_run: MakeRun, published: Path) -> None:
    write_indexed_tokens(published / TRAIN_NAME, [[1] * 100, [9999]])
    with pytest.raises(RequestError, match="token number 100 is 9999; the tokenizer has tokens 0"):
        LlamaDataSet(make_run()).survey()


def test_encoded_articles_that_are_gone_ask_for_another_survey(make_run: MakeRun) -> None:
    run = make_run()
    survey = LlamaDataSet(run).survey()
    elsewhere = replace(run, cache=run.cache / "other")
    with pytest.raises(StaleError, match="the encoded text is missing"):
        LlamaDataSet(elsewhere).check(survey.found)


def test_shuffled_documents_are_for_the_news(make_run: MakeRun) -> None:
    with pytest.raises(RequestError, match="is for the generated news, not for --data"):
        LlamaDataSet(make_run(data__shuffle_documents=True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tok_input": []}, "record 0 has an empty prompt"),
        ({"tok_input": [0, 9999]}, "record 0 has a token outside 0 to 399"),
        ({"tok_input": [0, -1]}, "record 0 has a token outside 0 to 399"),
        ({"tok_input": [0, 5, 6]}, "the prompt of record 0 .* is not what tokenizer.json"),
        ({"tok_input": "0 5"}, "no readable list of articles"),
        ({"output": None}, "no readable list of articles"),
    ],
)
def test_articles_that_cannot_be_served_are_refused(
    make_run: MakeRun, published: Path, byte_level: Any, change: dict[str, Any], said: str
) -> None:
    write_articles_file(published, byte_level, **change)
    with pytest.raises(RequestError, match=rf"cnn_eval\.json: .*{said}"):
        LlamaDataSet(make_run()).survey()


@pytest.mark.parametrize("content", [b"", b"[", b"{}", b"[]", b'[{"input": "a"}]'])
def test_a_damaged_list_of_articles_is_refused(
    make_run: MakeRun, published: Path, content: bytes
) -> None:
    (published / "cnn_eval.json").write_bytes(content)
    with pytest.raises(
        RequestError, match=r"cnn_eval\.json: (no readable list|it has no articles)"
    ):
        LlamaDataSet(make_run()).survey()


def take_steps(training: LlamaTraining, epoch: int, count: int, first: int = 0) -> None:
    with closing(training.train_epoch(epoch, first)) as steps:
        assert list(islice(steps, count)) == [4] * count


def test_training_reads_the_corpus_in_the_order_of_its_seed(
    make_run: MakeRun, published: Path
) -> None:
    """Two epochs go on in one pass, without a sequence twice; the loss falls."""
    training = LlamaTraining(make_run())
    counted = {
        "train_samples": 24,
        "eval_samples": 8,
        "corpus_samples": 400,
        "metric_signature": "mean cross-entropy of the next token, in nats",
    }
    assert counted.items() <= training.facts().items()
    read: list[list[int]] = []
    load = training._load_batch

    def record(keys: Any, epoch: int) -> WeightedSequences:
        batch = load(keys, epoch)
        read.extend(batch.token_BT.tolist())
        return batch

    training._load_batch = record  # type: ignore[method-assign]
    before = training.evaluate()["loss"]
    take_steps(training, 1, 6)
    take_steps(training, 2, 6)
    assert training.evaluate()["loss"] < before - 0.2
    whole = training._sequences[0][range(48)]
    assert sorted(read) == sorted(whole.tolist())
    other = LlamaTraining(replace(make_run(), seed=8))
    assert other._sequences[0][range(48)].tolist() != whole.tolist()


def test_evaluation_reads_the_first_sequences_in_order(make_run: MakeRun, published: Path) -> None:
    training = LlamaTraining(make_run())
    tokens = np.fromfile(published / "c4-validation-91205-samples.en_text_document.bin", "<i4")
    validation = training._sequences[1]
    assert len(validation) == 8
    assert validation[[7]][0].tolist() == tokens[7 * LENGTH : 8 * LENGTH + 1].tolist()


def test_a_resumed_run_reads_what_it_would_have_read(make_run: MakeRun, tmp_path: Path) -> None:
    whole, first = LlamaTraining(make_run()), LlamaTraining(make_run())
    take_steps(whole, 1, 6)
    take_steps(first, 1, 3)
    (tmp_path / "saved").mkdir()
    first.save(tmp_path / "saved")
    second = LlamaTraining(make_run())
    second.restore(tmp_path / "saved")
    take_steps(second, 1, 3, first=3)
    assert whole.evaluate() == second.evaluate()


@pytest.fixture
def checkpoint(make_run: MakeRun, tmp_path: Path) -> Path:
    folder = tmp_path / "exported"
    folder.mkdir()
    LlamaTraining(make_run(max_sequence_length=512)).export(folder)
    return folder


def test_a_trained_checkpoint_is_served(
    make_run: MakeRun, checkpoint: Path, byte_level: Any, transformers: ModuleType
) -> None:
    """With the prompts of the file; transformers generates the same tokens from the same folder
    greedily, and its tokenizer and template make the same prompt.
    """
    run = make_run(serving=True, decode__max_new_tokens=12, batching__max_batch=2)
    system = LlamaInference(run, checkpoint, TorchNamedEngine())
    system.load(range(3))
    template = ARTICLE_PROMPT.replace("{input}", ARTICLES[1])
    assert list(system.prompt(1)) == byte_level.encode(template).ids
    answers = system.open(0, 2)(range(3))
    reference = transformers.AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    for sample, answer in enumerate(answers):
        messages = [{"role": "user", "content": ARTICLES[sample]}]
        prompt = tokenizer.apply_chat_template(messages, return_dict=True, return_tensors="pt")
        assert prompt["input_ids"][0].tolist() == list(system.prompt(sample))
        made = reference.generate(**prompt, max_new_tokens=12)[0, prompt["input_ids"].shape[1] :]
        assert answer == pack_token_ids(made.tolist())
    shape = load_llama_checkpoint(checkpoint).shape
    assert shape.rope_scaling is not None and shape.rope_scaling.factor == 8.0
    assert shape.context == 512 and shape.vocabulary == 400


def test_another_tokenizer_than_the_checkpoint_s_is_refused(
    make_run: MakeRun, checkpoint: Path, published: Path
) -> None:
    path = published / "tokenizer.json"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(RequestError, match=r"its tokenizer\.json is not that of the data"):
        LlamaInference(make_run(serving=True), checkpoint, TorchNamedEngine())


def test_prompts_that_are_too_long_for_the_checkpoint_are_refused(
    make_run: MakeRun, tmp_path: Path
) -> None:
    folder = tmp_path / "short"
    folder.mkdir()
    LlamaTraining(make_run(max_sequence_length=32)).export(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 64}))
    with pytest.raises(RequestError, match=r"sample 0 has a prompt of \d+ tokens; .* 1 to 63"):
        LlamaInference(make_run(serving=True), folder, TorchNamedEngine())


@pytest.fixture
def truth(make_run: MakeRun, tmp_path: Path) -> Path:
    folder = tmp_path / "truth"
    folder.mkdir()
    load_serving_set(make_run(serving=True)).write_truth(folder)
    return folder


def test_answers_are_scored_as_the_reference_scores_them(truth: Path, byte_level: Any) -> None:
    """Sentences on lines of their own for -Lsum, text without special tokens, its length counted
    behind that.
    """
    end = byte_level.token_to_id("<|eot_id|>")
    texts = [" The fare stays. Trains run hourly.", "A bridge was opened.", "It snowed."]
    answers = {
        sample: pack_token_ids([*byte_level.encode(text).ids, end])
        for sample, text in enumerate(texts)
    }
    scores = score_answers(answers, truth)
    for metric in ("rouge1", "rougeL", "rougeLsum"):
        assert scores[metric] == pytest.approx((1 + 1 + 0.5) / 3)
    assert scores["gen_len"] == sum(map(len, texts)) - 1  # the space at the begin
    assert scores["unended"] == 0
    answers[1] = answers[1][:-4]
    del answers[2]
    cut = score_answers(answers, truth)
    assert cut["unended"] == 2
    assert cut["rouge1"] == pytest.approx(2 / 3)


def test_examples_show_the_texts(truth: Path, byte_level: Any) -> None:
    answers = {0: pack_token_ids(byte_level.encode("The fare rose.").ids)}
    examples = build_llama_examples(answers, truth, False, truth)
    assert examples is not None


def test_a_missing_model_of_sentences_is_named(
    truth: Path, forget_sentences: Callable[[], None]
) -> None:
    forget_sentences()
    with pytest.raises(MissingError, match="python -m nltk.downloader punkt_tab"):
        score_answers({}, truth)


@pytest.mark.parametrize(
    ("name", "content"),
    [("summaries.json", b"[]"), ("summaries.json", b"[1]"), ("tokenizer.json", b"{}")],
)
def test_a_damaged_truth_is_no_score(truth: Path, name: str, content: bytes) -> None:
    """The judge reports it, and does not crash."""
    (truth / name).write_bytes(content)
    with pytest.raises(ValueError, match=name):
        score_answers({}, truth)


def test_a_survey_asks_for_the_model_of_sentences(
    make_run: MakeRun, forget_sentences: Callable[[], None]
) -> None:
    """Before days of training, whose reference accuracy needs it."""
    forget_sentences()
    with pytest.raises(MissingError, match="python -m nltk.downloader punkt_tab"):
        LlamaDataSet(make_run()).survey()


def test_a_surveyed_training_opens_no_data_before_the_clock(
    make_run: MakeRun, published: Path
) -> None:
    """MLPerf's clock starts before any part of the system touches the data set."""
    run = make_run()
    found = replace(run, found=LlamaDataSet(run).survey().found)
    for path in published.iterdir():
        path.rename(path.with_suffix(".away"))
    training = LlamaTraining(found)
    with pytest.raises(RequestError, match="cannot be read"):
        training.evaluate()
