"""A generator under the real LoadGen: every query is answered once, token by token, and the record
has the times that LoadGen measured.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from compliance.kinds.podium.documents.inference import read_loadgen_run
from compliance.kinds.podium.rules.inference.loadgen_summary import (
    check_summary_figure,
    check_token_stopping_text,
    iterate_token_figures,
    select_parameter_keys,
)
from harness.serving.loadgen import query_times
from harness.serving.loadgen.generation import GenerationThread
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_LOG, QUERY_RECORD_FILE, TOKEN_RECORD_FILE
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario
from suite.registry import load_round
from suite.workload import Mode

lg: Any = pytest.importorskip("mlperf_loadgen")
SAMPLES = 64
TOKENS_PER_SAMPLE = 3


class CountingGenerator:
    """Answers sample s with 2 + s % 3 tokens, s and what follows: LoadGen refuses a single token."""

    slots = 4

    def __init__(self) -> None:
        self.live: dict[int, list[int]] = {}
        self.most = 0

    def warm_up(self) -> None:
        """Nothing to do."""

    def admit(self, slot: int, prompt: Sequence[int]) -> None:
        assert slot not in self.live, "a slot in use"
        sample = prompt[0]
        self.live[slot] = [sample + place for place in range(2 + sample % TOKENS_PER_SAMPLE)]
        self.most = max(self.most, len(self.live))

    def step(self) -> Sequence[tuple[int, int, bool]]:
        return [(slot, left.pop(0), not left) for slot, left in self.live.items()]

    def release(self, slot: int) -> None:
        assert self.live.pop(slot) == [], "released before its end"


class CountingInference:
    """Implements suite.workload.GeneratingInference."""

    def __init__(self, generator: CountingGenerator) -> None:
        self.generator = generator

    def prompt(self, sample: int) -> Sequence[int]:
        return [sample]

    def open_generator(self) -> CountingGenerator:
        return self.generator


def raise_error(error: BaseException) -> None:
    raise error


def run_loadgen(folder: Path, scenario: Scenario, *, accuracy: bool = False) -> GenerationThread:
    """Run LoadGen for a moment, and write what was recorded."""
    generator = CountingGenerator()
    answering = GenerationThread(lg, CountingInference(generator), lambda: None, raise_error)
    answering.start()
    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, scenario.label)
    settings.mode = lg.TestMode.AccuracyOnly if accuracy else lg.TestMode.PerformanceOnly
    settings.min_duration_ms, settings.min_query_count = 100, 200
    settings.use_token_latencies = True
    settings.ttft_latency = settings.tpot_latency = 10**9
    settings.server_target_qps, settings.server_target_latency_ns = 2000, 0
    settings.offline_expected_qps = 1000
    settings.single_stream_expected_latency_ns = 5_000
    output = lg.LogOutputSettings()
    output.outdir, output.copy_summary_to_stdout = str(folder), False
    logs = lg.LogSettings()
    logs.log_output, logs.enable_trace = output, False
    sut = lg.ConstructFastSUT(answering.issue, lambda: None)
    qsl = lg.ConstructQSL(SAMPLES, SAMPLES, lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(sut, qsl, settings, logs, str(folder / "no-audit.config"))
    lg.DestroyQSL(qsl)
    lg.DestroyFastSUT(sut)
    answering.stop()
    for lost in (
        query_times.write_query_times(folder, scenario, answering.issued, answering.completions),
        query_times.write_token_times(
            folder, answering.issued, answering.completions, answering.token_rows
        ),
    ):
        assert lost == ""
    assert generator.most <= generator.slots and not generator.live
    return answering


@pytest.mark.parametrize("scenario", [Scenario.OFFLINE, Scenario.SERVER, Scenario.SINGLE_STREAM])
def test_each_answer_is_recorded_as_loadgen_counted_it(tmp_path: Path, scenario: Scenario) -> None:
    (tally,) = run_loadgen(tmp_path, scenario).tallies
    found = read_detail_log(tmp_path)
    assert found.errors == ()
    tokens, queries = (
        numpy.load(tmp_path / name) for name in (TOKEN_RECORD_FILE, QUERY_RECORD_FILE)
    )
    answers = found.require_number("result_query_count") * found.require_number(
        "generated_samples_per_query"
    )
    assert len(tokens) == len(queries) == answers == tally.samples
    assert tally.generated == tokens[:, 3].sum() >= tally.batches
    assert (tokens[:, 3] == 2 + tokens[:, 0] % TOKENS_PER_SAMPLE).all()
    assert (queries["issued_ns"] <= tokens[:, 1]).all() and (tokens[:, 1] <= tokens[:, 2]).all()
    assert (tokens[:, 2] == queries["done_ns"]).all()


def test_the_log_has_the_tokens_as_answers(tmp_path: Path) -> None:
    run_loadgen(tmp_path, Scenario.OFFLINE, accuracy=True)
    answers = dict(read_logged_answers(tmp_path))
    assert len(answers) == SAMPLES
    for sample, content in answers.items():
        wanted = [sample + place for place in range(2 + sample % TOKENS_PER_SAMPLE)]
        assert numpy.frombuffer(content, "<i4").tolist() == wanted


@pytest.mark.parametrize("scenario", [Scenario.OFFLINE, Scenario.SERVER, Scenario.SINGLE_STREAM])
def test_the_judge_reads_what_loadgen_writes_of_tokens(tmp_path: Path, scenario: Scenario) -> None:
    """Each answer with its number of tokens; the sentences about first and further tokens; and
    every token's figure of the summary as the detail log has it.
    """
    run_loadgen(tmp_path, scenario, accuracy=True)
    answers = read_loadgen_run(tmp_path, Mode.ACCURACY, scenario, load_round()).answers
    assert answers.counted_lines == len(answers) == SAMPLES
    assert answers.wrong_token_lines == []
    (tmp_path / "performance").mkdir()
    run_loadgen(tmp_path / "performance", scenario)
    run = read_loadgen_run(tmp_path / "performance", Mode.PERFORMANCE, scenario, load_round())
    assert run.measures_tokens
    assert [error for source in run.sources[:3] for error in source.parse_errors] == []
    assert list(check_token_stopping_text(run)) == []
    for name, key in iterate_token_figures(run):
        assert list(check_summary_figure(run, name, key)) == []
    assert select_parameter_keys(run).keys() == run.summary.parameters.keys()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"token_count" : 3', '"token_count" : 4'),
        ('"token_data" : "01000000"', '"token_data" : "02000000"'),
    ],
)
def test_the_judge_sees_tokens_that_are_not_the_answer_s(
    tmp_path: Path, old: str, new: str
) -> None:
    """The rate of tokens would otherwise be whatever a system claims."""
    run_loadgen(tmp_path, Scenario.SERVER, accuracy=True)
    path = tmp_path / ACCURACY_LOG
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    answers = read_loadgen_run(tmp_path, Mode.ACCURACY, Scenario.SERVER, load_round()).answers
    assert len(answers.wrong_token_lines) == 1


def test_a_token_for_a_free_slot_is_an_error() -> None:
    class WrongGenerator(CountingGenerator):
        def step(self) -> Sequence[tuple[int, int, bool]]:
            return [(99, 1, True)]

    generator = WrongGenerator()
    answering = GenerationThread(lg, CountingInference(generator), lambda: None, raise_error)
    answering.add_query([1], [0], 0)
    free = list(range(generator.slots))
    answering.admit_waiting(generator, free)
    with pytest.raises(JudgedError, match="slot 99, which is free"):
        answering.hand_over_step(generator, free)
