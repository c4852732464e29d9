"""Rules about the tokens of generated answers, on what Llama's Server and SingleStream write."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import numpy
import pytest
from examples import result_of
from kinds.tokens import BASES, TOKENS_PER_SECOND_KEY, multiply_tokens
from making import LOADS, write_tree
from making_llama import build_llama_subject
from spoiling import SINGLE, SRV, run, set_value, swap, value_in
from system_records import put_system

from compliance.kinds.podium.documents.inference import POWER_TIME_FORMAT, LoadGenRun
from compliance.kinds.podium.rules.inference.loadgen_latencies import count_fewest_over
from compliance.kinds.podium.rules.inference.run_record import check_live_answers
from compliance.kinds.podium.rules.inference.token_times import COMPARED_PERCENTILES
from compliance.verdict import Severity
from suite.files.layout import (
    ACCURACY_LOG,
    DETAIL_LOG,
    QUERY_RECORD_FILE,
    RUN_RECORD,
    SUMMARY_LOG,
    TOKEN_RECORD_FILE,
)
from suite.loadgen import early_stopping
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TokenTimes
from suite.rounds import ScenarioRow, TokenBounds

Edit = Callable[[Path], None]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that served Server and SingleStream."""
    root = tmp_path_factory.mktemp("served") / "results"
    return write_tree(root, SRV, SINGLE, subject=build_llama_subject())


@pytest.fixture
def tree(served: Path, tmp_path: Path) -> Path:
    """A copy of it, to be edited."""
    return Path(shutil.copytree(served, tmp_path / "results"))


def find_run(tree: Path, scenario: Scenario = SRV) -> Path:
    """The performance run of a scenario."""
    return next(tree.glob(f"open/*/results/*/*/{scenario.folder}/performance/run_1"))


def test_a_training_that_was_killed_early_left_no_log(tree: Path) -> None:
    """Its folder has a benchmark's name, so that a list of these names would not help."""
    folder = next(tree.glob("open/*/results/*")) / "llama31_8b"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "telemetry_0.jsonl").write_text("")
    (found,) = list_found(tree, "tree.folders")
    assert found == "the folder llama31_8b with neither logs nor a scenario"


def list_found(folder: Path, rule: str) -> list[str]:
    return [finding.found for finding in result_of(folder).findings if finding.rule == rule]


@pytest.mark.parametrize("of_tokens", [True, False])
def test_the_estimate_of_single_stream_is_that_of_first_tokens(
    tmp_path: Path, of_tokens: bool
) -> None:
    """LoadGen takes early stopping's estimate from them, under the key of latencies."""
    BASES["generated-single-stream"](tmp_path)
    load = LOADS[SINGLE]
    rank = early_stopping.estimate_early_stopping(load.queries, 90.0).rank_from_top
    of_queries = load.latencies[-(rank or 1)]
    set_value(
        next(tmp_path.rglob(DETAIL_LOG)),
        "early_stopping_latency_ss",
        of_queries // 2 if of_tokens else of_queries,
    )
    assert bool(list_found(tmp_path, "loadgen.early_stopping")) != of_tokens


@pytest.mark.parametrize("measures", [True, False])
def test_an_earlier_query_may_end_after_the_last_one(tmp_path: Path, measures: bool) -> None:
    """Server's rate ends with the last query; another worker, or an answer with many tokens, goes
    on for at most the longest latency.
    """
    (BASES["generated"] if measures else run(SRV))(tmp_path)
    path = next(tmp_path.rglob(DETAIL_LOG))
    end = datetime.strptime(value_in(path, "power_end"), POWER_TIME_FORMAT)
    later = (end + timedelta(milliseconds=150)).strftime(POWER_TIME_FORMAT)[:-3]
    set_value(path, "power_end", later)
    set_value(path, "result_max_latency_ns", 200_000_000)
    late = [each for each in list_found(tmp_path, "loadgen.span") if "imply" in each]
    assert not late
    set_value(path, "result_max_latency_ns", 50_000_000)
    assert list_found(tmp_path, "loadgen.span")


@pytest.mark.parametrize("base", ["generated", "generated-single-stream"])
def test_slow_answers_are_left_out_only_as_far_as_first_tokens_were_held_up(
    tmp_path: Path, base: str
) -> None:
    """The 99th percentile of the time per token is told as that of an answer before: a thread that
    was held up behind podium's stamp of a first token makes it so, and the first token later.
    """
    BASES[base](tmp_path)
    path = next(tmp_path.rglob(TOKEN_RECORD_FILE))
    log = path.with_name(DETAIL_LOG)
    rows = numpy.load(path)
    rows = rows[rows[:, 3] > 1]
    times = (rows[:, 2] - rows[:, 1]) // (rows[:, 3] - 1)
    order = numpy.argsort(times)
    place = compute_percentile_index(len(times), 99.0)
    slowest, told = order[place:], int(times[order[place - 1]]) - 10_000
    set_value(log, OUTPUT_TOKEN_KEY.format(99.0), told)
    held_up_ns = int(((times - told) * (rows[:, 3] - 1))[order[place - 1 :]].sum())

    def is_accused() -> bool:
        return any("lacks" in each for each in list_found(tmp_path, "tokens.times"))

    assert len(slowest) and is_accused()
    key = "result_first_token_mean_latency_ns"
    set_value(log, key, value_in(log, key) + held_up_ns // len(numpy.load(path)) + 1)
    assert not is_accused()


def type_in(form: str, share: float) -> Edit:
    """Multiply a latency of tokens in the detail log, at all percentiles that are compared."""

    def edit(run: Path) -> None:
        for percentile in COMPARED_PERCENTILES:
            key = form.format(percentile)
            set_value(run / DETAIL_LOG, key, int(share * value_in(run / DETAIL_LOG, key)))

    return edit


def multiply_rate(times: float) -> Edit:
    """Multiply LoadGen's rate of tokens alone."""

    def edit(run: Path) -> None:
        rate = value_in(run / DETAIL_LOG, TOKENS_PER_SECOND_KEY)
        set_value(run / DETAIL_LOG, TOKENS_PER_SECOND_KEY, times * rate)

    return edit


def change_lengths(times: float) -> Edit:
    """Make all answers of a run longer or shorter, in every file that tells of them: the answers
    that LoadGen logged, tokens.npy, LoadGen's rate and podium's record.
    """

    def edit(run: Path) -> None:
        multiply_tokens(times)(run / TOKEN_RECORD_FILE)
        rate = value_in(run / DETAIL_LOG, TOKENS_PER_SECOND_KEY)
        swap(r"(Completed tokens per second *): .*", rf"\g<1>: {rate:.2f}")(run / SUMMARY_LOG)
        counts = dict(numpy.load(run / TOKEN_RECORD_FILE)[:, [0, 3]].tolist())
        log = run / ACCURACY_LOG
        log.write_text(ANSWER.sub(lambda found: resize_answer(found, counts), log.read_text()))

    return edit


ANSWER: Final = re.compile(
    r'"qsl_idx" : (\d+), "data" : "([0-9A-F]+)"(, "token_data" : "[0-9A-F]+"), "token_count" : \d+'
)


def resize_answer(found: re.Match[str], counts: Mapping[int, int]) -> str:
    """An answer of so many tokens, its end token still the last."""
    sample, count = int(found[1]), counts[int(found[1])]
    body, end = found[2][:-8], found[2][-8:]
    data = (body * count)[: 8 * (count - 1)] + end
    return f'"qsl_idx" : {sample}, "data" : "{data}"{found[3]}, "token_count" : {count}'


def cut_ends(folder: Path) -> None:
    """Cut the end token of every logged answer, in every place that tells how many there are."""
    table = numpy.load(folder / TOKEN_RECORD_FILE)
    table[:, 3] -= 1
    numpy.save(folder / TOKEN_RECORD_FILE, table)
    log = folder / ACCURACY_LOG
    log.write_text(ANSWER.sub(cut_one_end, log.read_text()))


def cut_one_end(found: re.Match[str]) -> str:
    """An answer without its last token."""
    data = found[2][:-8]
    return f'"qsl_idx" : {found[1]}, "data" : "{data}"{found[3]}, "token_count" : {len(data) // 8}'


def move_ends(folder: Path) -> None:
    """Let every answer end a little earlier than queries.npy has it."""
    table = numpy.load(folder / TOKEN_RECORD_FILE)
    table[:, 2] -= (table[:, 2] - table[:, 1]) // 50
    numpy.save(folder / TOKEN_RECORD_FILE, table)


def begin_before_issue(folder: Path) -> None:
    """Let the first token of one answer come before LoadGen issued its query."""
    table = numpy.load(folder / TOKEN_RECORD_FILE)
    table[0, 1] = numpy.load(folder / QUERY_RECORD_FILE)["issued_ns"][0] - 1
    numpy.save(folder / TOKEN_RECORD_FILE, table)


def end_before_beginning(folder: Path) -> None:
    """Let one answer's last token come before its first one."""
    table = numpy.load(folder / TOKEN_RECORD_FILE)
    table[0, 1] = table[0, 2] + 1
    numpy.save(folder / TOKEN_RECORD_FILE, table)


def lengthen_one_answer(folder: Path) -> None:
    """Say that one answer has more tokens than the settings allow, and all together hardly more."""
    table = numpy.load(folder / TOKEN_RECORD_FILE)
    table[0, 3] = 25
    numpy.save(folder / TOKEN_RECORD_FILE, table)


@pytest.mark.parametrize(
    ("edit", "rule", "severity"),
    [
        (type_in(FIRST_TOKEN_KEY, 0.5), "tokens.times", Severity.ERROR),
        (type_in(FIRST_TOKEN_KEY, 0.95), "tokens.times", Severity.ERROR),
        (type_in(OUTPUT_TOKEN_KEY, 0.5), "tokens.times", Severity.ERROR),
        (type_in(FIRST_TOKEN_KEY, 2.0), "tokens.times", Severity.WARNING),
        (multiply_rate(2), "tokens.count", Severity.ERROR),
        (change_lengths(2), "tokens.total", Severity.ERROR),
        (change_lengths(0.5), "tokens.total", Severity.ERROR),
        (lengthen_one_answer, "tokens.total", Severity.ERROR),
        (cut_ends, "tokens.total", Severity.ERROR),
        (move_ends, "tokens.times", Severity.ERROR),
        (begin_before_issue, "tokens.times", Severity.ERROR),
        (end_before_beginning, "tokens.times", Severity.ERROR),
    ],
)
def test_edited_tokens_are_found(tree: Path, edit: Edit, rule: str, severity: Severity) -> None:
    """TTFT and TPOT typed in, tokens inflated in one place, answers cut or padded in all places."""
    assert result_of(tree).findings == ()
    edit(find_run(tree))
    found = {finding.severity for finding in result_of(tree).findings if finding.rule == rule}
    assert found == {severity}


@pytest.mark.parametrize(
    ("live", "slots", "told"),
    [
        (1.0, 2.0, None),
        (1.1, 2.0, "as tokens.npy has"),
        (1.0, 0.5, "its slots"),
        (1.0, 10.0**6, "the setting batching.max_batch"),
    ],
)
def test_the_steps_of_a_generator_give_the_answers_their_tokens(
    tree: Path, live: float, slots: float, told: str | None
) -> None:
    """Each step gives a token to each live sequence, of which there are as many as slots at
    most.
    """
    folder = find_run(tree)
    total = int(numpy.load(folder / TOKEN_RECORD_FILE)[:, 3].sum())
    record = json.loads((folder / RUN_RECORD).read_text())
    samples = record["batches"]["count"] * record["batches"]["mean_size"]
    steps = {"count": float(total), "mean_size": samples / total, "mean_live": live, "slots": slots}
    record["batches"] |= steps
    (folder / RUN_RECORD).write_text(json.dumps(record))
    put_system(**{"settings__batching.max_batch": 64})(folder.parent.parent / "system.json")
    queries = numpy.load(folder / QUERY_RECORD_FILE)
    queries["batch"] = numpy.linspace(0, total - 1, len(queries)).astype("u4")
    numpy.save(folder / QUERY_RECORD_FILE, queries)
    found = [
        each
        for each in result_of(tree).findings
        if each.rule == "entry.batches" and "performance" in each.file
    ]
    assert [told in f"{each.required}" for each in found] == [True] if told else not found


@pytest.mark.parametrize(("slots", "found"), [(1, True), (2, True), (3, False)])
def test_answers_take_turns_in_the_slots(slots: int, found: bool) -> None:
    """Three answers that are live at the same time all the while need three slots."""
    each = numpy.ones(3, "i8")
    tokens = TokenTimes(sample=each, first_ns=5 * each, last_ns=25 * each, tokens=4 * each)
    run = SimpleNamespace(tokens=tokens, build_fault=lambda *told, file: (*told, file))
    assert bool(list(check_live_answers(cast(LoadGenRun, run), slots))) is found


@pytest.mark.parametrize(
    ("values", "over"),
    [({50.0: 10, 99.0: 90}, 0), ({50.0: 10, 99.0: 101}, 10), ({50.0: 101, 99.0: 200}, 500)],
)
def test_percentiles_tell_how_many_are_late_at_least(values: dict[float, int], over: int) -> None:
    logged = {FIRST_TOKEN_KEY.format(share): value for share, value in values.items()}
    run: Any = SimpleNamespace(find_number=logged.get)
    assert count_fewest_over(cast(LoadGenRun, run), 1000, FIRST_TOKEN_KEY, 100) == over


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        ({"tokens.bounds": "interactive"}, (5, 3)),
        ({"tokens.bounds": "server"}, (20, 10)),
        ({"tokens.bounds": 7}, (20, 10)),
        ({}, (20, 10)),
    ],
)
def test_a_run_is_held_to_the_bounds_that_its_record_asks_for(
    settings: dict[str, Any], bounds: tuple[int, int]
) -> None:
    """LoadGen's log must then request these: tokens.settings compares them."""
    row = ScenarioRow(
        percentile=99.0,
        token_latencies=True,
        first_token_ns=20,
        per_token_ns=10,
        interactive=TokenBounds(first_token_ns=5, per_token_ns=3),
        min_duration_ms=1,
        min_queries=1,
    )
    run = SimpleNamespace(
        inference=SimpleNamespace(scenarios={Scenario.SERVER: row}),
        scenario=Scenario.SERVER,
        record=SimpleNamespace(settings=settings),
        audited_by=None,
    )
    rule = cast(Any, LoadGenRun.rule).fget(run)
    assert (rule.first_token_ns, rule.per_token_ns) == bounds
