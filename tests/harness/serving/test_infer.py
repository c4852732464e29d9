"""`podium infer` from request to results, with real LoadGen runs over the fake workload."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from podium_fakes import drive
from podium_fakes.drive import entry, options
from podium_fakes.kept import (
    NONCE,
    keep_ceiling,
    keep_checkpoint,
    run_folders,
    run_record,
    value_of,
    verdict_of,
)

from harness import progress
from harness.commands.infer import infer as command
from harness.machine import cpus
from harness.serving import harness_ceiling, infer, performance_runs, staging
from harness.serving.run_record import LoadGenVerdict
from harness.serving.setup import set_up_serving
from suite import registry
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import compute_bound_seed, compute_file_sha256, compute_folder_sha256
from suite.loadgen.advice import Hint
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.scenario import Scenario
from suite.workload import Scores

RATE = "server.qps_share=0.02"
"""Low, and a run that is INVALID because the machine stalled is repeated; one at a rate of the
user's own would not be.
"""
SHORT = ("loadgen.min_duration_ms=20", RATE)


@dataclass(frozen=True)
class Ended:
    """What a whole `infer` left behind."""

    results: Path
    checkpoint: Path
    output: str


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, with a harness ceiling in it."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_ceiling(tmp_path / "cache")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """All scenarios in both modes, once."""
    folder = tmp_path_factory.mktemp("served")
    checkpoint = keep_checkpoint(folder / "results")
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PODIUM_CACHE", str(folder / "cache"))
        patch.setattr("click.echo", lines.append)
        keep_ceiling(folder / "cache")
        infer.serve_workload(
            "fake",
            options(folder / "results", RATE),
            scenarios=tuple(Scenario),
            mode="all",
            checkpoint=None,
        )
    yield Ended(results=folder / "results", checkpoint=checkpoint, output="\n".join(lines))


def serve(
    results: Path,
    *assignments: str,
    scenario: Scenario = Scenario.OFFLINE,
    mode: str = "all",
    **changes: Any,
) -> None:
    infer.serve_workload(
        "fake",
        options(results, *assignments, **changes),
        scenarios=(scenario,),
        mode=mode,
        checkpoint=None,
    )


@pytest.mark.slow
def test_every_run_is_in_its_place(ended: Ended):
    """The judge and the official tools look for these names; nothing unfinished stays."""
    place = entry(ended.results)
    for scenario in Scenario:
        for folder in (
            place.locate_accuracy_run("fake", scenario),
            place.locate_performance_run("fake", scenario),
        ):
            assert {path.name for path in folder.iterdir()} >= {
                "mlperf_log_summary.txt",
                "mlperf_log_detail.txt",
                "mlperf_log_accuracy.json",
                "run.json",
            }
        assert place.locate_measurements_file("fake", scenario).is_file()
    assert (
        place.system_file.is_file()
        and len((place.locate_ground_truth("fake") / "labels.txt").read_text().split()) == 100
    )
    assert not list(ended.results.rglob("*.partial"))


@pytest.mark.slow
def test_both_modes_of_a_scenario_run_on_as_many_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The host became busy between them: the judge refuses an entry whose runs are of two
    systems.
    """
    keep_checkpoint(tmp_path / "results")
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(4)))
    keep_ceiling(tmp_path / "cache")
    serve(tmp_path / "results", *SHORT, mode="accuracy", threads=0)
    monkeypatch.setattr(cpus, "measure_cpu_use", lambda: 0.5)
    serve(tmp_path / "results", *SHORT, mode="performance", threads=0)
    assert (
        "other programs use 2.0 of 4 cores, so timings are unreliable; using 4"
        in capsys.readouterr().out
    )
    serve(tmp_path / "results", *SHORT, scenario=Scenario.SINGLE_STREAM, threads=0)
    assert [
        run_record(folder).system.threads for folder in run_folders(entry(tmp_path / "results"))
    ] == [
        4,
        4,
        2,
        2,
    ]


@pytest.mark.slow
def test_no_phase_of_serving_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Model and probe are in a child process, which takes minutes for a large model."""
    keep_checkpoint(tmp_path / "results")
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.1)
    given = [part for each in SHORT for part in ("--set", each)]
    asked = [*drive.words(tmp_path / "results")[1:], "--scenario", "offline", "--mode", "accuracy"]
    done = CliRunner().invoke(command, [*asked, *given])
    assert done.exception is None, done.exception
    preparing = "fake: preparing: model, accuracy set, and a probe of its speed: 0:0"
    told = [line for line in done.stdout.splitlines() if line.endswith(" so far")]
    assert any(line.startswith(preparing) for line in told), done.stdout


@pytest.mark.slow
def test_every_run_is_bound_to_campaign_and_checkpoint(ended: Ended):
    """By LoadGen's own files, not only by ours: a run of other weights cannot be swapped in."""
    for folder in run_folders(entry(ended.results)):
        record = run_record(folder)
        assert (record.system.nonce, record.system.checkpoint_sha256) == (
            NONCE,
            ended.checkpoint.name,
        )
        assert read_detail_log(folder).values[
            "effective_accuracy_log_rng_seed"
        ] == compute_bound_seed(NONCE, ended.checkpoint.name)


@pytest.mark.slow
def test_records_say_what_was_run(ended: Ended):
    """Stamps keep something small from passing for something big; settings make it possible to do
    it again.
    """
    folder = entry(ended.results).locate_performance_run("fake", Scenario.SERVER)
    record, facts = run_record(folder), read_detail_log(folder)
    system = record.system
    assert (system.workload, system.round, system.profile, system.division, system.org) == (
        "fake",
        "podium-v1",
        "smoke",
        "open",
        "tests",
    )
    headline = facts.require_headline(Scenario.SERVER)
    assert facts.is_valid and headline.metric == "completed_samples_per_second"
    assert (system.framework, system.engine, system.input, system.device, system.precision) == (
        "fake",
        "fake",
        "default",
        "cpu",
        "fp32",
    )
    assert (
        record.settings["server.qps_share"] == 0.02
        and record.settings["loadgen.min_queries"] == 459
    )
    assert (
        headline.value == facts.require_number("result_completed_samples_per_sec") > 0
        and record.batches["count"] >= 1
        and 1 <= record.batches["mean_size"] <= 32
    )
    assert record.ceiling == 1e9 and system.sample_count == 100


@pytest.mark.slow
def test_metrics_are_loadgens_own(ended: Ended):
    """The values have to be those that a judge reads from the detail log."""
    keys = {
        "single-stream": "early_stopping_latency_ss",
        "multi-stream": "early_stopping_latency_ms",
        "offline": "result_samples_per_second",
    }
    for name, key in keys.items():
        folder = entry(ended.results).locate_performance_run("fake", Scenario(name))
        assert value_of(folder) == read_detail_log(folder).require_number(key) > 0


@pytest.mark.slow
def test_accuracy_is_scored_and_hashed(ended: Ended):
    """One line a metric, with the hash of the answers it was computed from."""
    folder = entry(ended.results).locate_accuracy_run("fake", Scenario.MULTI_STREAM)
    assert (
        (folder / "accuracy.txt").read_text()
        == f"top1=0.800000, hash={compute_file_sha256(folder / 'mlperf_log_accuracy.json')}\n"
    )
    assert run_record(folder).ceiling is None


@pytest.mark.slow
def test_measurements_name_weights_engine_and_reference(ended: Ended):
    """MLCommons' fields and ours."""
    found = json.loads(
        entry(ended.results).locate_measurements_file("fake", Scenario.OFFLINE).read_text()
    )
    assert {
        "input_data_types",
        "retraining",
        "starting_weights_filename",
        "weight_data_types",
        "weight_transformations",
    } <= found.keys()
    assert (
        found["reference_accuracy"] == {"top1": 0.8}
        and found["checkpoint_sha256"] == ended.checkpoint.name
    )
    assert (
        found["engine_description"] == {"fake": {"kind": "fake"}}
        and found["scenario"] == "Offline"
        and found["truth_sha256"]
    )


@pytest.mark.slow
def test_the_output_is_verdict_and_metric_in_words(ended: Ended):
    """Nobody reads LoadGen's summary; podium has to say what is in it."""
    for words in (
        "probe: ",
        "Offline accuracy: top1 0.8000",
        "Offline performance: VALID, ",
        "Server performance: VALID, ",
    ):
        assert words in ended.output
    assert " samples/s (harness ceiling 1,000,000,000" in ended.output
    assert (
        "SingleStream performance: VALID, p90 latency " in ended.output
        and " ms (harness" in ended.output
    )


@pytest.mark.slow
def test_done_again_the_old_runs_are_moved_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Nothing is lost, and two campaigns' runs never stand side by side: those of other weights go,
    whatever their scenario.
    """
    results, place = tmp_path / "results", entry(tmp_path / "results")
    keep_checkpoint(results, 0.8)
    serve(results, *SHORT, scenario=Scenario.SERVER)
    served = told_by(run_folders(place))
    serve(results, *SHORT, mode="performance")
    standing = told_by(run_folders(place))
    assert served < standing and len(standing) == 3
    keep_checkpoint(results, 0.9)
    capsys.readouterr()
    serve(results, *SHORT, mode="performance")
    assert run_folders(place) == [place.locate_performance_run("fake", Scenario.OFFLINE)]
    assert "earlier results moved to" in capsys.readouterr().out
    assert standing <= told_by(
        path.parent for path in (results / ".podium" / "superseded").rglob("run.json")
    )


def told_by(folders: Iterable[Path]) -> set[bytes]:
    """Read what runs say of themselves. On a busy machine some are INVALID, and done again."""
    return {(folder / "run.json").read_bytes() for folder in folders}


@pytest.mark.slow
def test_less_accurate_than_the_reference_is_exit_1_after_all_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A faster engine that answers worse must not pass; its runs stay, for whoever wants to see
    why.
    """
    keep_checkpoint(tmp_path, 0.8, reference_accuracy={"top1": 0.82})
    with pytest.raises(
        JudgedError,
        match=r"Offline accuracy: top1 is 0\.8000, below 0\.8118 \(99% of the reference 0\.8200\)",
    ):
        serve(tmp_path, *SHORT)
    assert len(run_folders(entry(tmp_path))) == 2 and "too low" in capsys.readouterr().out


@pytest.mark.slow
def test_a_hair_below_the_reference_is_enough(tmp_path: Path):
    """99 %, not 100: fewer digits may cost a picture."""
    keep_checkpoint(tmp_path, 0.8, reference_accuracy={"top1": 0.805})
    serve(tmp_path, mode="accuracy")


@pytest.mark.slow
@pytest.mark.parametrize("pinned", [None, "own", "0" * 64])
def test_data_that_the_judge_will_not_take_are_told_before_they_are_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pinned: str | None
):
    """Where a row pins its truth: minutes of LoadGen runs would be in vain."""
    keep_checkpoint(tmp_path)
    bench = set_up_serving("fake", options(tmp_path), None)
    infer.probe_system(bench, [Scenario.OFFLINE], bench.entry.locate_ground_truth("fake"))
    own = compute_folder_sha256(bench.entry.locate_ground_truth("fake"))
    row = replace(bench.row, truth_sha256=own if pinned == "own" else pinned)
    capsys.readouterr()
    infer.probe_system(
        replace(bench, row=row), [Scenario.OFFLINE], bench.entry.locate_ground_truth("fake")
    )
    told = (
        "not the embedded data, the only data that the judge accepts in profile smoke"
        in capsys.readouterr().out
    )
    assert told is (pinned == "0" * 64)


@pytest.mark.slow
def test_an_invalid_run_names_rule_knob_and_value_and_is_not_repeated_against_the_users_will(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The user chose the rate: podium says what to try, and does not try it."""
    keep_checkpoint(tmp_path)
    with pytest.raises(JudgedError, match="Server performance run 1 is INVALID"):
        serve(
            tmp_path,
            "server.target_qps=60000",
            "fake.sleep_ms=5",
            scenario=Scenario.SERVER,
            mode="performance",
        )
    output = capsys.readouterr().out
    assert (
        "Server performance: INVALID" in output
        and "--set server.target_qps=" in output
        and "repeating with" not in output
    )
    folder = entry(tmp_path).locate_performance_run("fake", Scenario.SERVER)
    assert verdict_of(folder) == "INVALID"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("valid_at", "tries", "problems"),
    [
        (2, 2, []),
        (3, 3, []),
        (
            9,
            5,
            [
                "Server performance run 1 is INVALID; latency bound: 9 of 5 ms; latency bound: 9 of"
                " 5 ms; it was missed at every rate down to 12.4 queries/s, so that fewer queries a"
                " second may not help: end other programs on these cores, or serve with a faster"
                " --engine or --precision"
            ],
        ),
    ],
)
def test_an_invalid_run_is_repeated_as_advised_a_few_times(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    valid_at: int,
    tries: int,
    problems: list[str],
):
    """A probe may be too hopeful; what fails again and again is the user's to settle. What was too
    short as well is not asked for more.
    """
    keep_checkpoint(tmp_path)
    bench = set_up_serving("fake", options(tmp_path), None)
    rates: list[float] = []
    place = entry(tmp_path).locate_performance_run("fake", Scenario.SERVER)

    def attempt(bench: Any, schedule: Any, number: int, probe: Any) -> LoadGenVerdict:
        rates.append(schedule.rate)
        place.mkdir(parents=True)  # the folder of the attempt before has to be gone
        values = (100.0 - len(rates), 9000.0)
        hints = tuple(
            Hint(
                rule="latency bound",
                found="9 of 5 ms",
                knob="server.target_qps",
                value=value,
                sentence="slower",
            )
            for value in values
        )
        valid = len(rates) == valid_at
        return LoadGenVerdict(
            valid=valid,
            metric="completed_samples_per_second",
            value=1.0,
            rate=1.0,
            hints=() if valid else hints,
        )

    monkeypatch.setattr(performance_runs, "run_performance_once", attempt)
    seen = infer.probe_system(bench, [Scenario.SERVER], tmp_path / "truth")
    assert performance_runs.measure_performance(bench, Scenario.SERVER, 1, seen) == problems
    assert (
        rates[1:] == [99.0, 49.5, 24.8, 12.4][: tries - 1]
        and "repeating with server.target_qps=99\n" in capsys.readouterr().out
    )


@pytest.mark.slow
@pytest.mark.parametrize("measured", [1000.0, 1e9])
def test_a_result_near_the_harness_ceiling_is_flagged(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    measured: float,
):
    """Above a fifth of it the harness is part of what was measured; a result above it has it
    measured again first.
    """
    keep_checkpoint(tmp_path)
    keep_ceiling(tmp_path / "cache", 1000.0)
    monkeypatch.setattr(
        harness_ceiling,
        "measure_scenario_ceilings",
        lambda *_: [(scenario.value, measured) for scenario in Scenario],
    )
    serve(tmp_path, *SHORT, mode="performance")
    record, output = (
        run_record(entry(tmp_path).locate_performance_run("fake", Scenario.OFFLINE)),
        capsys.readouterr().out,
    )
    assert (
        "measuring the harness ceiling of this host, again: a run reached" in output
        and record.ceiling == measured
    )
    assert ("above a fifth of the harness ceiling" in output) is (measured == 1000.0)
    assert "this run does not count" in output  # 20 ms instead of 100


def nan(answers: Mapping[int, bytes], truth: Path) -> Scores:
    return {"top1": float("nan")}


@pytest.mark.slow
def test_an_accuracy_that_is_no_number_leaves_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """NaN compares as neither below nor above: it would pass every threshold that is asked the
    wrong way round.
    """
    keep_checkpoint(tmp_path)
    monkeypatch.setattr(registry, "load_scorer", lambda name: nan)
    with pytest.raises(JudgedError, match="top1 is nan, not a number"):
        serve(tmp_path, mode="accuracy")
    assert run_folders(entry(tmp_path)) == [] and not list(tmp_path.rglob("*.partial"))


def test_a_system_that_breaks_is_one_sentence_and_no_result(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """From the child's traceback, which is kept in a file, to the parent's exit 1."""
    keep_checkpoint(tmp_path)
    with pytest.raises(
        JudgedError,
        match=(
            "the system under test failed: ValueError: broken on purpose in inference; traceback in"
        ),
    ) as caught:
        serve(tmp_path, "fake.fault=inference")
    assert (
        run_folders(entry(tmp_path)) == []
        and not list(tmp_path.rglob("*.partial"))
        and "Traceback" not in capfd.readouterr().err
    )
    assert "in __init__" in Path(str(caught.value).rsplit("traceback in ", 1)[1]).read_text()


def test_a_kernel_that_is_not_there_is_one_sentence_with_what_to_take(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """An LSTM in bf16 on AVX2 was 40 lines of traceback and exit 1."""
    keep_checkpoint(tmp_path)
    with pytest.raises(
        MissingError,
        match=(
            "kernels do not run it in fp32 .*LSTM forward propagation primitive.; `podium doctor"
            " fake` names what"
        ),
    ) as caught:
        serve(tmp_path, "fake.fault=kernel")
    assert caught.value.exit_code == 3 and "Traceback" not in capfd.readouterr().err
    assert "RuntimeError" in Path(str(caught.value).rsplit("traceback in ", 1)[1]).read_text()


@pytest.mark.parametrize(
    ("assignments", "changes", "kind", "words"),
    [
        ((), {"precision": "int4"}, MissingError, "engine fake: has no int4"),
        ((), {"engine": "torch"}, RequestError, "does not accept fake networks"),
        (("batching.max_batch=0",), {}, RequestError, "batching.max_batch: 0 is below 1"),
        (("batching.window_us=-1",), {}, RequestError, "batching.window_us: -1 is below 0"),
        (("batching.workers=100000",), {}, RequestError, "too many"),
        ((), {"profile": "full"}, RequestError, "no inference rules in profile full"),
    ],
)
def test_what_cannot_be_served_is_refused_before_any_run(
    tmp_path: Path,
    assignments: Sequence[str],
    changes: dict[str, Any],
    kind: type[Exception],
    words: str,
):
    """With the exit code that the command line documents."""
    keep_checkpoint(tmp_path)
    with pytest.raises(kind, match=words):
        serve(tmp_path, *assignments, **changes)


@pytest.mark.slow
def test_truth_that_is_the_same_stays_and_other_truth_makes_room(tmp_path: Path):
    """Several systems share it; labels of another data set must not stay under their answers."""
    keep_checkpoint(tmp_path)
    serve(tmp_path, mode="accuracy")
    labels = entry(tmp_path).locate_ground_truth("fake") / "labels.txt"
    before, text = labels.stat().st_mtime_ns, labels.read_text()
    serve(tmp_path, mode="accuracy")
    assert labels.stat().st_mtime_ns == before
    labels.write_text("0\n")
    serve(tmp_path, mode="accuracy")
    assert labels.read_text() == text


FULL_DISK = """
import resource
from pathlib import Path
from podium_fakes.drive import options
from harness.serving import infer as serving
from suite.cli import main
from suite.loadgen.scenario import Scenario
import click

@click.command()
@click.argument("results")
@click.argument("limit", type=int)
def command(results, limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    serving.serve_workload("fake", options(Path(results)), scenarios=(Scenario.OFFLINE,), mode="all", checkpoint=None)

if __name__ == "__main__":
    main(command)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20_000, 500])
def test_a_full_disk_leaves_no_result(tmp_path: Path, limit: int):
    """LoadGen does not notice that its log ends early, and our own records fail to be written: exit
    3, one sentence with the reason, nothing valid. It was "mlperf_log_summary.txt is truncated".
    """
    keep_checkpoint(tmp_path / "results")
    script = tmp_path / "serve.py"
    script.write_text(FULL_DISK)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "results"), str(limit)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (
        done.returncode == 3
        and done.stderr.startswith("podium: ")
        and "File too large" in done.stderr
        and len(done.stderr.splitlines()) == 1
    ), done.stderr
    assert run_folders(entry(tmp_path / "results")) == []


@pytest.mark.slow
def test_each_run_says_how_long_it_lasts_and_the_last_lines_what_comes_next(ended: Ended):
    """Minutes of silence behind `probe:`, and no word on where the logs lie."""
    told = ended.output.splitlines()
    assert "fake: preparing: model, accuracy set, and a probe of its speed" in told
    assert any(line.startswith("SingleStream performance, at least ") for line in told)
    assert any(line.startswith("Offline accuracy, 100 samples, about ") for line in told)
    place = entry(ended.results).locate_accuracy_run("fake", Scenario.OFFLINE).parent.parent
    assert told[-2:] == [f"fake: logs in {place}", f"next: podium check {ended.results}"]


@pytest.mark.slow
def test_an_audit_file_in_the_users_folder_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """LoadGen would take its settings before ours, without a word in the summary."""
    keep_checkpoint(tmp_path / "results")
    (tmp_path / "audit.config").write_text("*.*.min_duration = 7\n*.*.qsl_rng_seed = 7\n")
    monkeypatch.chdir(tmp_path)
    serve(tmp_path / "results", *SHORT, mode="performance")
    facts = read_detail_log(
        entry(tmp_path / "results").locate_performance_run("fake", Scenario.OFFLINE)
    )
    assert (
        facts.values["effective_min_duration_ms"] == 20
        and facts.values["effective_qsl_rng_seed"] != 7
    )


@pytest.mark.parametrize("content", [b"[]", b'{"nonce": "\xff"}', b"[" * 100_000, b""])
def test_a_run_whose_record_is_damaged_makes_room(tmp_path: Path, content: bytes):
    """It was a traceback before anything was served; the run is moved aside, as one of another
    checkpoint is.
    """
    keep_checkpoint(tmp_path)
    bench = set_up_serving("fake", options(tmp_path), None)
    folder = bench.entry.locate_performance_run("fake", Scenario.OFFLINE)
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(content)
    assert staging.has_other_checkpoint(bench, folder.parent)
