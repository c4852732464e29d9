"""The ledger of real campaigns: whole after a kill anywhere, continued by the next campaign, and
read out by `podium verify`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from suite.ledger.history import collect_standing_files, find_unended_attempts
from suite.ledger.steps import AttemptKind, LedgerStep, StepKind, parse_ledger, split_ledger_lines
from suite.loadgen.scenario import Scenario

Podium = Callable[..., "subprocess.CompletedProcess[str]"]
Campaign = tuple[Path, "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.slow

POINTS = 20
SHARED = Path(__file__).resolve().parents[1] / "shared"
COPIED = """
import shutil, sys
from itertools import count
from pathlib import Path
from suite.ledger import book

home, calls = Path(sys.argv.pop(1)), count()

def kept(original):
    def called(*given):
        if home.exists():
            shutil.copytree(home, home.with_name(str(next(calls))))
        return original(*given)
    return called

Path.replace, Path.rename, book.write_ledger_line = map(kept, (Path.replace, Path.rename, book.write_ledger_line))
from suite.cli import main
main()
"""
"""A podium that keeps what a power cut would leave before each of its renames or ledger lines, in
folders with the moment's number.
"""
CONTINUED = """
import os, sys
from forked import launch

words, folders = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]

def campaign(results):
    try:
        launch([*words, results])
    except SystemExit as ended:
        assert not ended.code, (results, ended.code)

campaign(folders[0])
for results in folders[1:]:
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        campaign(results)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, results
"""
"""One campaign after the other, each but the first, and LoadGen's processes, forked from where all
modules are loaded.
"""
VERIFIED = """
import sys
from suite.cli import main

for bundle in sys.argv[1:]:
    sys.argv = ["podium", "verify", bundle]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, (bundle, ended.code)
"""
"""`podium verify` of one bundle after the other, without loading the judge for each."""


def lines(results: Path) -> list[LedgerStep]:
    (path,) = results.glob("open/*/ledger/fake.jsonl")
    text = path.read_bytes()
    steps = list(parse_ledger(text))
    assert [step.n for step in steps] == list(
        range(len(split_ledger_lines(text)))
    ) and text.endswith(b"\n")
    assert [step.previous for step in steps] == [
        "",
        *(sha256(line).hexdigest() for line in split_ledger_lines(text)[:-1]),
    ]
    return steps


def told_to(
    environment: dict[str, str], script: str, *words: object
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", script, *map(str, words)]
    paths = os.pathsep.join([environment["PYTHONPATH"], str(SHARED)])
    return subprocess.run(
        command,
        env={**environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
    )


@pytest.mark.timeout(1800)
def test_a_campaign_that_is_killed_anywhere_has_a_whole_ledger_in_the_end(
    podium: Podium, environment: dict[str, str], tmp_path: Path, fake: Sequence[str]
) -> None:
    """A file without its line, a line without its file, half a line: at 20 moments between the
    first and the last rename or line.
    """
    words = ("run", "fake", "--seed", 1, *fake, "--results")
    whole = told_to(environment, COPIED, tmp_path / "whole", *words, tmp_path / "whole")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    count = sum(path.name.isdigit() for path in tmp_path.iterdir())
    assert count > 2 * POINTS
    points = [tmp_path / str(point * count // POINTS) for point in range(POINTS)]
    outcome = told_to(environment, CONTINUED, *words, "--", *points)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    for results in points:
        assert not list(find_unended_attempts(lines(results)))
    checked = podium("check", *points)
    assert checked.returncode == 0, checked.stdout
    verified = told_to(
        environment, VERIFIED, *(next(results.glob("bundles/*.tar.zst")) for results in points)
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_finished_campaign_tells_of_each_attempt(campaign: Campaign, podium: Podium) -> None:
    """One run set, four scenarios, each run that counts once; and what the bundle says of
    it.
    """
    results, _ = campaign
    steps = lines(results)
    assert (
        [step.step for step in steps[:3]] == [StepKind.BEGIN, StepKind.TRAINED, StepKind.EXPORTED]
        and steps[0].system
        and steps[0].nonce
    )
    assert sum(
        step.step is StepKind.SERVED and step.verdict != "INVALID" for step in steps
    ) == 8 and not list(find_unended_attempts(steps))
    assert [step.step for step in steps[-2:]] == [StepKind.CHECKED, StepKind.PACKED]
    bundle = next(results.glob("bundles/*.tar.zst"))
    told = podium("verify", bundle)
    assert told.returncode == 0, told.stdout + told.stderr
    names = [line.split()[0] for line in told.stdout.splitlines()]
    assert (
        names[:4] == ["bytes", "judge", "ledger", "nonce"]
        and "1 run set begun and kept" in told.stdout
        and "no challenge was set" in told.stdout
    )
    document = json.loads(podium("verify", bundle, "--format", "json").stdout)
    assert document["whole"] is True and document["ledger"]["text"].startswith(
        f"unbroken: {len(steps) - 1} links"
    )
    assert document["nonce"]["text"] == "no challenge was set"


def test_the_same_campaign_again_writes_nothing(
    campaign: Campaign, podium: Podium, tmp_path: Path, fake: Sequence[str]
) -> None:
    """Else each look at a finished campaign would make another bundle."""
    results = shutil.copytree(campaign[0], tmp_path / "results")
    before, bundle = lines(results), next(results.glob("bundles/*.tar.zst")).read_bytes()
    assert podium("run", "fake", "--results", results, "--seed", 1, *fake).returncode == 0
    assert (
        lines(results) == before and next(results.glob("bundles/*.tar.zst")).read_bytes() == bundle
    )


def test_a_new_campaign_goes_on_with_the_ledger_of_the_old_one(
    campaign: Campaign, podium: Podium, forked: Podium, tmp_path: Path, fake: Sequence[str]
) -> None:
    """Attempts must not vanish with what they made; the old results are told as superseded. With a
    challenge, which the nonce is made from.
    """
    results = shutil.copytree(campaign[0], tmp_path / "results")
    before, challenge = lines(results), "1f0c" * 4
    outcome = forked(
        "run", "fake", "--results", results, "--seed", 9, "--challenge", challenge, *fake
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    after = lines(results)
    assert after[: len(before)] == before
    begun = [
        step for step in after if step.step is StepKind.BEGIN and step.what == AttemptKind.TRAINING
    ]
    assert len(begun) == 2 and begun[1].challenge == challenge
    assert begun[1].nonce == sha256(bytes.fromhex(challenge + begun[1].random)).hexdigest()
    kept = {
        after[number].step: after[number].nonce
        for number in collect_standing_files(after)
        if after[number].step is not StepKind.EXPORTED
    }
    assert set(kept.values()) == {begun[1].nonce}, (
        "weights stay, whoever exported them; logs and runs do not"
    )
    assert podium("check", results).returncode == 0
    told = podium("verify", next(results.glob("bundles/*.tar.zst"))).stdout
    assert (
        "2 run sets begun, the last kept" in told
        and f"fresh: derived from the challenge {challenge}" in told
    )
    scores = json.loads(podium("score", results, "--format", "json").stdout)["scores"]
    verdicts = re.findall(
        r"^(\w+) performance: (?:IN)?VALID", campaign[1].stdout + outcome.stdout, re.MULTILINE
    )  # INVALID runs are repeated
    assert min(verdicts.count(scenario.label) for scenario in Scenario) >= 2
    assert {row["scenario"]: row["attempts"] for row in scores} == {None: 2} | {
        scenario.label: verdicts.count(scenario.label) for scenario in Scenario
    }


@pytest.mark.parametrize("challenge", ["12", "zz" * 8, "ab" * 65, "a" * 17, ""])
def test_a_challenge_that_is_none_is_refused_and_writes_nothing(
    podium: Podium, tmp_path: Path, fake: Sequence[str], challenge: str
) -> None:
    outcome = podium(
        "run", "fake", "--results", tmp_path / "results", "--challenge", challenge, *fake
    )
    assert (
        outcome.returncode == 2
        and "--challenge: " in outcome.stderr
        and not (tmp_path / "results").exists()
    )


def test_several_performance_runs_are_served_judged_and_kept(
    campaign: Campaign, podium: Podium, forked: Podium, tmp_path: Path, fake: Sequence[str]
) -> None:
    """Three runs and one accuracy run; with --mode performance the accuracy run stays, and fewer
    than the round asks for are refused.
    """
    results = shutil.copytree(campaign[0], tmp_path / "results")
    before = sum(
        step.step is StepKind.BEGIN
        and step.what == AttemptKind.PERFORMANCE
        and "/Offline/" in step.of
        for step in lines(results)
    )
    words = ("infer", "fake", "--results", results, *fake, "--scenario", "offline", "--runs", 3)
    outcome = forked(*words)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    verdicts = re.findall(r"^Offline performance: ((?:IN)?VALID)", outcome.stdout, re.MULTILINE)
    assert verdicts.count("VALID") == 3 and outcome.stdout.count("Offline accuracy: ") == 1
    (folder,) = results.glob("open/*/results/*/fake/Offline")
    assert sorted(path.name for path in (folder / "performance").iterdir()) == [
        "run_1",
        "run_2",
        "run_3",
    ]
    assert podium("check", results).returncode == 0
    row = next(
        row for row in json.loads(podium("score", folder, "--format", "json").stdout)["scores"]
    )
    assert (
        len(row["runs"]) == 3
        and row["value"] == min(row["runs"])
        and row["attempts"] == before + len(verdicts)
        and row["compliant"]
    )
    shutil.rmtree(folder / "performance" / "run_3")
    refused = podium("pack", results, "-o", tmp_path / "mine.tar.zst")
    assert (
        refused.returncode == 1
        and "ledger.complete" in refused.stderr
        and not (tmp_path / "mine.tar.zst").exists()
    )


def test_the_better_of_two_runs_cannot_be_put_back(
    campaign: Campaign, podium: Podium, tmp_path: Path, fake: Sequence[str]
) -> None:
    """Served twice, and the first copied over the second: an error, also after the next command."""
    results = shutil.copytree(campaign[0], tmp_path / "results")
    (kept,) = results.glob("open/*/results/*/fake/Offline/performance/run_1")
    first = (kept / "run.json").read_bytes()
    words = (
        "infer",
        "fake",
        "--results",
        results,
        *fake,
        "--scenario",
        "offline",
        "--mode",
        "performance",
    )
    assert podium(*words).returncode == 0
    aside = (results / ".podium" / "superseded").glob(
        "*/open/*/results/*/fake/Offline/performance/run_1"
    )  # several where one was INVALID and repeated
    (old,) = (run for run in aside if (run / "run.json").read_bytes() == first)
    shutil.rmtree(kept)
    shutil.copytree(old, kept)
    assert podium("check", results).returncode == 1
    podium(
        "infer",
        "fake",
        "--results",
        results,
        *fake,
        "--scenario",
        "server",
        "--mode",
        "performance",
    )
    told = podium("check", results)
    assert told.returncode == 1 and "ledger.kept" in told.stdout


def test_results_without_their_ledger_do_not_count(
    campaign: Campaign, podium: Podium, tmp_path: Path, fake: Sequence[str]
) -> None:
    """Neither as they are nor with the ledger that begins with what is served next: how often they
    were tried is gone.
    """
    results = shutil.copytree(campaign[0], tmp_path / "results")
    shutil.rmtree(next(results.glob("open/*/ledger")))
    told = podium("check", results)
    assert told.returncode == 1 and "tree.ledger" in told.stdout
    assert podium("pack", results, "-o", tmp_path / "old.tar.zst").returncode == 1
    outcome = podium("infer", "fake", "--results", results, *fake, "--scenario", "offline")
    assert outcome.returncode == 0
    told = podium("check", results)
    assert told.returncode == 1 and "ledger.begun" in told.stdout
