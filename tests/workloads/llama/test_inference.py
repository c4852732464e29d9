"""The system under test: answers, truth, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from testbed import PlainEngine

from harness.serving.loadgen.generation import GenerationThread
from suite import registry
from suite.errors import RequestError
from suite.files.tokenizer_files import TOKENIZER_FILE
from suite.rounds import Profile
from suite.terms import Division, Precision
from suite.workload import GeneratingInference, Run
from workloads.common.text.references import read_references
from workloads.common.weights_description import DESCRIPTION_FILE
from workloads.llama import cache_room
from workloads.llama.cache_room import SPARE_SHARE, compute_slot_bytes
from workloads.llama.checkpoint import LlamaTokens
from workloads.llama.generation import LlamaGenerator, generate_answers
from workloads.llama.inference import LlamaInference, check_prompts
from workloads.llama.serving_set import ServingSet, load_serving_set
from workloads.llama.shape import LlamaShape
from workloads.llama.vocabulary import BEGIN_ID, END_ID, format_tokenizer, list_tokens
from workloads.llama.weights import export_llama_checkpoint

from .conftest import SHAPE, TEMPLATE, build_network

MakeRun = Callable[..., Run]
NEWS_SHAPE = replace(SHAPE, vocabulary=len(list_tokens()))
NEW_TOKENS = 6


class TorchNamedEngine(PlainEngine):
    """Stands for PyTorch's."""

    name = "torch"


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A run with the settings that serving reads."""
    round = registry.load_round()
    resnet = round.benchmark("resnet50")
    served = replace(
        resnet.inference[Profile.SMOKE], division=Division.OPEN, performance_samples=100
    )
    row = replace(resnet, inference={Profile.SMOKE: served})
    settings: dict[str, Any] = {"decode.max_new_tokens": NEW_TOKENS, "batching.max_batch": 4}

    def make(**changes: Any) -> Run:
        own = {key.replace("__", "."): changes.pop(key) for key in [*changes] if "__" in key}
        fields: dict[str, Any] = {
            "round": replace(round, benchmarks={**round.benchmarks, "llama": row}),
            "profile": Profile.SMOKE,
            "seed": 7,
            "data": None,
            "cache": tmp_path,
            "framework": "torch",
            "input": "default",
            "device": "cpu",
            "precision": Precision.FP32,
            "threads": 1,
            "settings": settings | own,
        }
        return Run(**fields | changes)

    return make


def export_news_checkpoint(folder: Path, shape: LlamaShape = NEWS_SHAPE) -> Path:
    folder.mkdir()
    tokens = LlamaTokens(
        tokenizer=format_tokenizer().encode(),
        begin=BEGIN_ID,
        ends=(END_ID,),
        chat_template=TEMPLATE,
    )
    export_llama_checkpoint(build_network(shape).state_dict(), shape, tokens, folder)
    return folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return export_news_checkpoint(tmp_path / "checkpoint")


@pytest.fixture
def system(make_run: MakeRun, checkpoint: Path) -> LlamaInference:
    return LlamaInference(make_run(), checkpoint, TorchNamedEngine())


def test_it_generates_under_loadgen(system: LlamaInference) -> None:
    """LoadGen's thread takes it for a generator, which answers as its predictor does; three slots
    of four are refilled.
    """
    assert isinstance(system, GeneratingInference)
    system.load(range(9))
    predicted = system.open(0, 4)(range(9))
    lg = RecordingLoadGen()
    answering = GenerationThread(lg, system, lambda: system.length, raise_error)
    answering.start()
    answering.issue(list(range(9)), list(range(9)))
    answering.stop()
    assert lg.counts == [len(answer) // 4 for answer in predicted]
    assert lg.first == {sample: answer[:4] for sample, answer in enumerate(predicted)}


class RecordingLoadGen:
    """Notes what LoadGen is told."""

    def __init__(self) -> None:
        self.first: dict[int, bytes] = {}
        self.ended: dict[int, int] = {}

    @property
    def counts(self) -> list[int]:
        """Tokens of each answer."""
        return [count for _, count in sorted(self.ended.items())]

    def QuerySampleResponse(self, *told: int) -> tuple[int, ...]:  # noqa: N802 - LoadGen's name
        return told

    def FirstTokenComplete(self, responses: list[tuple[int, ...]]) -> None:  # noqa: N802
        import ctypes

        for number, address, size in responses:
            self.first[number] = ctypes.string_at(address, size)

    def QuerySamplesComplete(self, responses: list[tuple[int, ...]]) -> None:  # noqa: N802
        for number, _, size, count in responses:
            assert size == 4 * count
            self.ended[number] = count


def raise_error(error: BaseException) -> None:
    raise error


def test_answers_do_not_depend_on_the_batch(system: LlamaInference) -> None:
    """Alone, in a full batch, or in another order: the same bytes for the same prompt."""
    system.load(range(12))
    predict = system.open(0, 4)
    alone = [predict([sample])[0] for sample in range(12)]
    assert len(set(alone)) > 1
    assert list(predict([3, 1, 2, 0])) == [alone[3], alone[1], alone[2], alone[0]]
    assert list(predict(range(12))) == alone


def test_an_endless_answer_is_cut_at_the_limit(make_run: MakeRun, checkpoint: Path) -> None:
    """A network with random weights hardly ever ends by itself."""
    system = LlamaInference(make_run(), checkpoint, TorchNamedEngine())
    system.load(range(8))
    answers = [numpy.frombuffer(each, "<i4") for each in system.open(0, 8)(range(8))]
    assert max(map(len, answers)) == NEW_TOKENS
    for answer in answers:
        assert len(answer) == NEW_TOKENS or answer[-1] == END_ID
        assert answer.min() >= 0 and answer.max() < len(list_tokens())


def test_slots_beyond_the_samples_are_left_out(
    make_run: MakeRun, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A legal number of them must not fill the memory, nor be warmed up."""
    run = make_run(batching__max_batch=65_536)
    system = LlamaInference(run, checkpoint, TorchNamedEngine())
    assert system.open_generator().slots == system.sample_count == 512
    assert "512 slots, one for each sample; batching.max_batch asks for 65536" in (
        capsys.readouterr().err
    )


def test_warm_up_leaves_all_slots_free(system: LlamaInference) -> None:
    """Also with more slots than an answer has tokens, and answers stay the same after it."""
    generator = system.open_generator()
    assert generator.slots == 4
    system.load([0])
    before = generate_answers(generator, [system.prompt(0)])
    generator.warm_up()
    assert generator.free_slots == [0, 1, 2, 3]
    assert generate_answers(generator, [system.prompt(0)]) == before


def test_warm_up_takes_one_step_with_every_number_of_rows(
    system: LlamaInference, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, rows = system.open_generator(), list[int]()

    def step_noting(self: LlamaGenerator) -> Any:
        generated = step(self)
        rows.append(len(generated))
        return generated

    step = LlamaGenerator.step
    monkeypatch.setattr(LlamaGenerator, "step", step_noting)
    generator.warm_up()
    assert rows == [4, 3, 2, 1]


def test_sizes_and_truth(make_run: MakeRun, system: LlamaInference, tmp_path: Path) -> None:
    """The references are those of the prompts, by sample number."""
    served = load_serving_set(make_run())
    assert (system.sample_count, system.performance_sample_count) == (512, 100)
    system.truth(tmp_path)
    assert read_references(tmp_path) == list(served.summaries)
    system.load([5])
    assert system.prompt(5) == served.prompts[5]
    assert system.length(5) == len(served.prompts[5])


def test_unloaded_prompts_are_gone(system: LlamaInference) -> None:
    """LoadGen's library: memory for the performance set only."""
    system.load([0, 1])
    system.unload([0])
    system.open(0, 4)([1])
    with pytest.raises(KeyError):
        system.prompt(0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"precision": Precision.FP16}, "the generator has no fp16; it has fp32, tf32, bf16"),
        ({"engine__compile": True}, "engine.compile is not supported"),
        ({"sut__instances": 2}, "sut.instances is not supported"),
        ({"decode__max_new_tokens": 0}, "decode.max_new_tokens: must be at least 1"),
    ],
)
def test_what_the_generator_cannot_do_is_refused(
    make_run: MakeRun, checkpoint: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        LlamaInference(make_run(**changes), checkpoint, TorchNamedEngine())


def test_another_engine_is_refused(make_run: MakeRun, checkpoint: Path) -> None:
    with pytest.raises(RequestError, match="does not generate token by token; allowed: torch"):
        LlamaInference(make_run(), checkpoint, PlainEngine())


def test_another_workload_s_checkpoint_is_refused(make_run: MakeRun, checkpoint: Path) -> None:
    """Before anything is loaded."""
    (checkpoint / DESCRIPTION_FILE).write_text('{"workload": "gnmt"}')
    with pytest.raises(RequestError, match="workload is gnmt"):
        LlamaInference(make_run(), checkpoint, TorchNamedEngine())


def test_another_tokenizer_is_refused(make_run: MakeRun, checkpoint: Path) -> None:
    """Its numbers would mean other words, quietly."""
    path = checkpoint / TOKENIZER_FILE
    path.write_text(path.read_text().replace("Anna", "Annika"))
    with pytest.raises(RequestError, match=r"its tokenizer\.json is not that of the data"):
        LlamaInference(make_run(), checkpoint, TorchNamedEngine())


def test_a_checkpoint_with_a_short_context_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    """At once, not in the midst of a run."""
    short = export_news_checkpoint(tmp_path / "short", replace(NEWS_SHAPE, context=32))
    with pytest.raises(RequestError, match=r"sample 0 has a prompt of \d+ tokens; .* 1 to 31"):
        LlamaInference(make_run(), short, TorchNamedEngine())


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ([], "sample 1 has a prompt of 0 tokens"),
        ([1] * 96, "sample 1 has a prompt of 96 tokens; the checkpoint allows 1 to 95"),
        ([1, 64], "sample 1 has a token outside 0 to 63"),
        ([-1], "sample 1 has a token outside 0 to 63"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_named(prompt: list[int], said: str) -> None:
    served = ServingSet(prompts=[[1] * 95, prompt], summaries=["", ""])
    with pytest.raises(RequestError, match=said):
        check_prompts(served, SHAPE)


def test_bf16_answers(make_run: MakeRun, checkpoint: Path, system: LlamaInference) -> None:
    """Mostly as fp32: rounding decides only where two tokens are about as likely."""
    rounded = LlamaInference(make_run(precision=Precision.BF16), checkpoint, TorchNamedEngine())
    firsts = []
    for one in (rounded, system):
        one.load(range(32))
        firsts.append([answer[:4] for answer in one.open(0, 8)(range(32))])
    agreed = sum(first == other for first, other in zip(*firsts, strict=True))
    assert agreed >= 24


def test_slots_that_do_not_fit_are_left_out_and_named(
    system: LlamaInference, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the clock, and answers stay the same; a cache of one slot is measured by hand."""
    system.load(range(6))
    whole = system.open(0, 4)(range(6))
    assert capsys.readouterr().err == ""
    longest = max(map(len, load_serving_set(system._run).prompts)) + NEW_TOKENS
    slot = NEWS_SHAPE.layers * longest * 2 * NEWS_SHAPE.key_value_heads * 8 * 4
    assert slot == compute_slot_bytes(NEWS_SHAPE, longest, torch.float32)
    weights = sum(weight.numel() for weight in system._network.parameters()) * 4
    free = (weights + 2 * slot) / (1 - SPARE_SHARE) + 8
    monkeypatch.setattr(cache_room, "measure_free_bytes", lambda _: int(free))
    generator = system.open_generator()
    assert generator.slots == 2
    assert capsys.readouterr().err == (
        f"llama: the free memory holds 2 sequences of {longest} tokens; batching.max_batch asks"
        " for 4\n"
    )
    assert system.open(0, 4)(range(6)) == whole


def test_a_cache_without_room_for_one_sequence_is_refused(
    system: LlamaInference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_room, "measure_free_bytes", lambda _: 1 << 15)
    with pytest.raises(RequestError, match="one sequence .* and only 0 MiB are free"):
        system.open_generator()


def test_free_memory_is_measured() -> None:
    """Of this machine, in bytes."""
    assert 1 << 20 < cache_room.measure_free_bytes(torch.device("cpu")) < 1 << 50
