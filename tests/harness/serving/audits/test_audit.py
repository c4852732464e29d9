"""`podium audit` from request to files, with real LoadGen runs over fake devices: honest ones pass,
each cheat fails.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from podium_fakes.audited import CHEATS
from podium_fakes.drive import entry, options, until_valid
from podium_fakes.kept import keep_ceiling, keep_checkpoint
from system_records import put_system

from compliance.judge import Judge
from compliance.verdict import PathJudgement, Severity
from harness.commands.audit import audit_command
from harness.serving import infer
from harness.serving.audits import turns
from harness.serving.audits.command import audit_workload
from submissions.campaign.audits import collect_missing_audits, is_passed_test
from submissions.result_index import find_results
from suite.audits.names import GENERAL_TESTS, AuditTest
from suite.audits.rules import format_audit_config, require_audit_rules
from suite.errors import JudgedError, RequestError
from suite.files.layout import locate_ledger_file
from suite.ledger.steps import parse_ledger
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.scenario import Scenario
from suite.records import read_system_record

SHOWN_IN = (
    Scenario.SINGLE_STREAM,
    Scenario.MULTI_STREAM,
    Scenario.SERVER,
    Scenario.SERVER,
    Scenario.OFFLINE,
    Scenario.SINGLE_STREAM,
)
"""The scenario in which each of the cheats is audited: of all four, those where a test of it takes
few seconds.
"""
TRIES = 3
"""A machine that stalls may hold up both kinds of runs alike, and a cheat passes once."""
RATE = "server.target_qps=80"
SLOW = "audited.sample_ms=5"
"""In Server a sample takes longer than a busy machine holds up a query in the median."""
NETWORKED = Path(__file__).parents[3] / "examples/base/networked"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache with a harness ceiling in it."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PODIUM_CACHE", str(folder))
    keep_ceiling(folder)


def served(results: Path, cheat: str, *scenarios: Scenario) -> Path:
    keep_checkpoint(results, 1.0, workload="audited")
    until_valid(
        lambda: infer.serve_workload(
            "audited",
            asked(results, cheat, *scenarios),
            scenarios=scenarios,
            mode="all",
            checkpoint=None,
        )
    )
    return results


def asked(results: Path, cheat: str = "none", *scenarios: Scenario) -> Any:
    slow = [SLOW] if Scenario.SERVER in scenarios else []
    return options(results, f"audited.cheat={cheat}", RATE, *slow)


def run(
    results: Path,
    scenario: Scenario,
    test: str = "all",
    cheat: str = "none",
    rules: str = "podium-v1",
) -> None:
    audit_workload(
        "audited",
        asked(results, cheat, scenario),
        scenarios=(scenario,),
        test=test,
        rules=rules,
        checkpoint=None,
    )


def place(results: Path, scenario: Scenario) -> Path:
    return entry(results).locate_audits("audited", scenario)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An honest device, served in one scenario and audited."""
    results = tmp_path_factory.mktemp("honest") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PODIUM_CACHE", str(results.parent / "cache"))
        keep_ceiling(results.parent / "cache")
        served(results, "none", Scenario.OFFLINE)
        run(results, Scenario.OFFLINE)
    yield results


@pytest.mark.slow
def test_an_honest_system_passes_and_the_judge_agrees(honest: Path) -> None:
    """All three tests lie in MLCommons' folders, with podium's record and words that a submission
    checker finds.
    """
    for test in GENERAL_TESTS:
        folder = place(honest, Scenario.OFFLINE) / test
        found, reference = (
            len(list((folder / kind).glob("run_*"))) for kind in ("performance", "reference")
        )
        assert found == reference >= (1 if test is AuditTest.TEST01 else 2)
        assert "TEST PASS" in (folder / "verify_performance.txt").read_text()
        assert {path.name for path in (folder / "performance" / "run_1").iterdir()} >= {
            "mlperf_log_summary.txt",
            "mlperf_log_detail.txt",
        }
    assert (
        "TEST PASS"
        in (place(honest, Scenario.OFFLINE) / "TEST01" / "verify_accuracy.txt").read_text()
    )
    found = Judge().judge_path(str(honest / "open" / "tests" / "results" / "testbed" / "audited"))
    assert [finding for finding in found.findings if finding.rule.startswith("audit")] == []


def test_a_test_of_tokens_needs_generated_answers(tmp_path: Path) -> None:
    """Nothing runs, and the sentence says why."""
    keep_checkpoint(tmp_path / "results", 1.0, workload="audited")
    with pytest.raises(RequestError, match="TEST06 is for answers that are generated token by"):
        run(tmp_path / "results", Scenario.OFFLINE, test="TEST06")


@pytest.mark.slow
def test_neighbouring_tests_share_the_reference_run_between_them(honest: Path) -> None:
    """The same run is filed with both: it lies between the last run of one and the first of the
    other.
    """
    detail = "mlperf_log_detail.txt"
    runs = {
        test: sorted((place(honest, Scenario.OFFLINE) / test / "reference").glob("run_*"))
        for test in GENERAL_TESTS
    }
    for earlier, later in pairwise(GENERAL_TESTS):
        assert (runs[earlier][-1] / detail).read_bytes() == (runs[later][0] / detail).read_bytes()
    assert (
        len({(path / detail).read_bytes() for each in runs.values() for path in each})
        == sum(map(len, runs.values())) - 2
    )


@pytest.mark.slow
def test_effective_settings_are_those_of_the_rules(honest: Path) -> None:
    """A test whose settings LoadGen did not take tests nothing."""
    facts = {
        test: read_detail_log(
            place(honest, Scenario.OFFLINE) / test / "performance" / "run_1"
        ).values
        for test in GENERAL_TESTS
    }
    assert facts[AuditTest.TEST04]["effective_performance_issue_same"] is True
    assert facts[AuditTest.TEST01]["effective_accuracy_log_sampling_target"] == 256
    seeds = {test: each["effective_qsl_rng_seed"] for test, each in facts.items()}
    assert seeds[AuditTest.TEST05] != seeds[AuditTest.TEST04] == seeds[AuditTest.TEST01]


@pytest.mark.slow
def test_every_audit_stands_in_the_ledger(honest: Path) -> None:
    """One that failed cannot be left out."""
    steps = list(
        parse_ledger(locate_ledger_file(entry(honest).organisation_folder, "audited").read_bytes())
    )
    kept = [step for step in steps if step.what == "audit" and step.step == "served"]
    assert [step.verdict for step in kept] == ["passed"] * 3
    assert all(step.files for step in kept)


@pytest.mark.slow
@pytest.mark.parametrize(("cheat", "scenario"), list(zip(CHEATS, SHOWN_IN, strict=True)))
def test_each_cheat_fails_the_test_that_is_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cheat: str, scenario: Scenario
) -> None:
    """All pairs of cheat and scenario: benchmarks/audits.py. No cheat is given the further turns
    that noise would need.
    """
    monkeypatch.setattr(turns, "CLEAR_SPEED_FACTOR", 1.0)
    results = served(tmp_path / "results", cheat, scenario)
    with pytest.raises(JudgedError, match=f"{scenario.label} {CHEATS[cheat]}"):
        for _ in range(TRIES):
            run(results, scenario, CHEATS[cheat], cheat)
    judged = Judge().judge_path(str(place(results, scenario) / CHEATS[cheat]))
    assert not list_audit_errors(judged)
    rules = {finding.rule for finding in judged.findings}
    assert "audit.failed" in rules
    assert rules & {"audit.speed", "audit.answers", "loadgen.valid"}
    forge_passed_audit(place(results, scenario) / CHEATS[cheat])
    forged = Judge().judge_path(str(place(results, scenario) / CHEATS[cheat]))
    assert list_audit_errors(forged)


def list_audit_errors(judged: PathJudgement) -> set[str]:
    """Name the rules of the errors in a compliance test."""
    return {
        each.rule
        for each in judged.findings
        if each.severity is Severity.ERROR and "/compliance/" in each.file
    }


def forge_passed_audit(folder: Path) -> None:
    """Write that a test passed where it failed."""
    for path in folder.glob("verify_*.txt"):
        path.write_text(path.read_text().replace("TEST FAIL", "TEST PASS"))


@pytest.mark.slow
def test_streams_of_several_samples_are_audited_with_as_many_queries_as_a_median_needs(
    tmp_path: Path,
) -> None:
    """The judge takes these runs, and longer ones, which earlier versions made; it takes no result
    of so few queries.
    """
    results = served(tmp_path / "results", "none", Scenario.MULTI_STREAM)
    run(results, Scenario.MULTI_STREAM, "TEST04")
    folder, result = (
        place(results, Scenario.MULTI_STREAM) / "TEST04",
        entry(results).locate_performance_run("audited", Scenario.MULTI_STREAM),
    )
    short, conditions = folder / "reference" / "run_1", {"loadgen.minimums", "loadgen.target"}
    facts = [
        read_detail_log(path).values for path in (short, folder / "performance" / "run_1", result)
    ]
    assert [each["requested_min_query_count"] for each in facts] == [64, 64, 662]
    assert findings(folder) <= {"loadgen.streams"}  # a warning, where other work held them up
    short.rename(tmp_path / "short")
    shutil.copytree(result, short)
    assert not conditions & findings(folder)
    shutil.rmtree(result)
    shutil.copytree(tmp_path / "short", result)
    assert conditions <= findings(result)


def findings(folder: Path) -> set[str]:
    """Name the rules about LoadGen's runs and audits that a folder breaks."""
    return {
        each.rule
        for each in Judge().judge_path(str(folder)).findings
        if each.rule.startswith(("audit.", "loadgen."))
    }


@pytest.mark.slow
def test_new_runs_supersede_the_audits_of_the_old_ones(honest: Path, tmp_path: Path) -> None:
    """An audit of runs that are gone says nothing of those that stand there."""
    results = tmp_path / "results"
    shutil.copytree(honest, results)
    assert (place(results, Scenario.OFFLINE) / "TEST01" / "audit.json").is_file()
    infer.serve_workload(
        "audited",
        asked(results),
        scenarios=(Scenario.OFFLINE,),
        mode="performance",
        checkpoint=None,
    )
    assert not list(place(results, Scenario.OFFLINE).glob("*"))
    assert list((results / ".podium" / "superseded").rglob("TEST01/audit.json"))


@pytest.mark.slow
def test_an_audit_with_a_run_that_stays_invalid_ends_and_says_so(
    honest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Speed does not speak against the system: further turns, up to five, would change nothing."""
    monkeypatch.setattr("harness.serving.audits.turns.is_logged_valid", lambda folder: False)
    results = honest.parent / "copy"
    shutil.copytree(honest, results)
    with pytest.raises(JudgedError, match="Offline TEST05"):
        run(results, Scenario.OFFLINE, "TEST05")
    assert "LoadGen calls a run INVALID, 2 turns" in capsys.readouterr().out
    assert len(list((place(results, Scenario.OFFLINE) / "TEST05/performance").iterdir())) == 2


@pytest.mark.slow
def test_a_campaign_is_audited_by_podiums_own_rules(honest: Path, tmp_path: Path) -> None:
    """A test that passed by a round's more lenient ones is not done."""
    audited = place(honest, Scenario.OFFLINE) / "TEST04"
    record = json.loads((audited / "audit.json").read_text())
    for name in ("system.json", "verify_performance.txt"):
        shutil.copy(audited / name, tmp_path)
    nonce = read_system_record(tmp_path).nonce
    for rules, done in (("podium-v1", True), ("v4.1", False)):
        (tmp_path / "audit.json").write_text(json.dumps({**record, "rules": rules}))
        assert is_passed_test(tmp_path, AuditTest.TEST04, nonce) is done
    (tmp_path / "audit.json").write_text(json.dumps(record))
    assert not is_passed_test(tmp_path, AuditTest.TEST01, nonce)  # without a word of its answers


@pytest.mark.slow
def test_a_campaign_runs_the_tests_that_are_lacking_alone(honest: Path, tmp_path: Path) -> None:
    """An interrupted one goes on behind the last finished test, and does not begin a scenario
    anew.
    """
    results = tmp_path / "results"
    shutil.copytree(honest, results)
    nonce = read_system_record(place(results, Scenario.OFFLINE) / "TEST04").nonce
    assert collect_missing_audits(find_results(results), nonce) == {}
    shutil.rmtree(place(results, Scenario.OFFLINE) / "TEST04")
    assert collect_missing_audits(find_results(results), nonce) == {Scenario.OFFLINE: ["TEST04"]}
    assert collect_missing_audits(find_results(results), "another") == {Scenario.OFFLINE: ["all"]}
    both = [*find_results(results), *find_results(honest)]
    assert (
        collect_missing_audits(both, nonce)
        == collect_missing_audits(both[::-1], nonce)
        == {Scenario.OFFLINE: ["TEST04"]}
    )


@pytest.mark.parametrize("words", [("--meter", "cat"), ("--power", "rapl")])
def test_an_audit_reads_no_watts_and_says_so(words: tuple[str, str]) -> None:
    """An option that is taken and does nothing misleads."""
    ended = CliRunner().invoke(audit_command, ["audited", *words])
    assert ended.exit_code == 2 and "No such option" in ended.output and words[0] in ended.output


@pytest.mark.slow
def test_a_result_of_a_remote_system_is_not_called_missing(honest: Path, tmp_path: Path) -> None:
    """There is no command that would make one that can be audited."""
    results = tmp_path / "results"
    shutil.copytree(honest, results)
    between = json.loads(next(NETWORKED.rglob("run.json")).read_text())["network"]
    for path in results.rglob("run.json"):
        path.write_text(
            json.dumps(
                {
                    **json.loads(path.read_text()),
                    "network": {**between, "endpoints": ["grpc://h1:8001"]},
                }
            )
        )
    for system in sorted(results.glob("open/*/results/*")):
        system.rename(system.with_name("elsewhere"))
    with pytest.raises(
        RequestError,
        match=(
            "Offline was served by grpc://h1:8001: audit it there, with --endpoint grpc://h1:8001"
        ),
    ):
        run(results, Scenario.OFFLINE)


def test_a_result_that_is_not_there_names_the_command(tmp_path: Path) -> None:
    keep_checkpoint(tmp_path / "results", 1.0, workload="audited")
    with pytest.raises(RequestError, match="podium infer audited --scenario server"):
        run(tmp_path / "results", Scenario.SERVER)
    assert not list((tmp_path / "results").glob("open/**/TEST*"))


@pytest.mark.slow
def test_a_result_of_another_checkpoint_other_settings_or_that_is_invalid_is_refused(
    honest: Path, tmp_path: Path
) -> None:
    """The audit would be one of another system."""
    log = next(honest.glob("**/results/**/performance/run_1/mlperf_log_detail.txt"))
    system = next(honest.glob("**/results/**/system.json"))
    kept, logged = system.read_text(), log.read_text()
    try:
        log.write_text(logged.replace('"VALID"', '"INVALID"'))
        with pytest.raises(RequestError, match="INVALID"):
            run(honest, Scenario.OFFLINE)
        log.write_text(logged)
        for field, value, reason in (
            ("nonce", "f" * 32, "of checkpoint"),
            ("device", "cuda:0-7", "on cuda:0-7"),
        ):
            put_system(**{field: value})(system)
            with pytest.raises(RequestError, match=reason):
                run(honest, Scenario.OFFLINE)
            put_system(**{field: json.loads(kept)[field]})(system)
        with pytest.raises(RequestError, match="batching.max_batch=32, not 8"):
            audit_workload(
                "audited",
                options(honest, "audited.cheat=none", RATE, "batching.max_batch=8"),
                scenarios=(Scenario.OFFLINE,),
                test="all",
                rules="podium-v1",
                checkpoint=None,
            )
    finally:
        log.write_text(logged)


@pytest.mark.slow
def test_an_interrupted_audit_leaves_finished_tests_and_nothing_half_written(
    honest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with half of its runs could be taken for a test."""
    before = sorted(path for path in place(honest, Scenario.OFFLINE).rglob("*"))

    def broken(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.serving.audits.files.write_record", broken)
    with pytest.raises(JudgedError, match="No space left on device; finished tests are kept"):
        run(honest, Scenario.OFFLINE, "TEST04")
    assert sorted(path for path in place(honest, Scenario.OFFLINE).rglob("*")) == before


CASES = [
    (test, rules)
    for test in (AuditTest.TEST01, AuditTest.TEST04)
    for rules in ("podium-v1", "v0.5", "v0.7", "v4.1")
]
FIELDS_AND_CONFIGS = """
import dataclasses, json, sys
from harness.serving.loadgen.test_settings import build_test_settings
from podium_fakes.served import schedule
from suite.loadgen.scenario import Scenario

def differing(path, knobs):
    plain = schedule(Scenario.OFFLINE)
    one, two = build_test_settings(dataclasses.replace(plain, special=knobs)), build_test_settings(plain)
    two.FromConfig(path, "*", "Offline", 2)
    return [name for name in knobs if getattr(one, name) != getattr(two, name)]

print(json.dumps([differing(path, knobs) for path, knobs in json.loads(sys.argv[1])]))
"""


@pytest.fixture(scope="module")
def differing(
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[tuple[AuditTest, str], list[str]]:
    """The fields of each case of which LoadGen makes something else than of its audit.config, from
    one process for all.
    """
    asked_for = []
    for test, rules in CASES:
        knobs = (
            require_audit_rules(rules)
            .tests[test]
            .build_loadgen_settings(test, Scenario.OFFLINE, "resnet50", "ab", "cd")
        )
        knobs.pop("accuracy_log_probability", None)
        path = tmp_path_factory.mktemp("config") / "audit_workload.config"
        path.write_text(format_audit_config(knobs))
        asked_for.append((str(path), knobs))
    done = subprocess.run(
        [sys.executable, "-c", FIELDS_AND_CONFIGS, json.dumps(asked_for)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_loadgen_makes_the_same_of_the_fields_as_of_an_audit_config(
    differing: Mapping[tuple[AuditTest, str], list[str]], case: tuple[AuditTest, str]
) -> None:
    """podium sets LoadGen's fields one by one; who runs the test elsewhere has its audit.config.

    LoadGen 6 no longer reads v0.5's probability there, and takes no seeds from files of users, so
    that TEST05 has none to compare.
    """
    assert differing[case] == []
