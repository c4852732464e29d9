"""An inference result in a folder that names a round is judged by that round, whatever round's
configuration its logs show.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from corpus import CORPUS

from compliance.judge import Judge
from compliance.reports.text import render_text_report
from compliance.verdict import PathJudgement, Severity, Verdict

SYSTEM = "ESC_N8_H200-SXM-141GBx8_TRT"
SEEDS = ("1780908523862526354", "14771362308971278857", "18209322760996052031")
EARLIER_SEEDS = ("6023615788873153749", "15036839855038426416", "9933818062894767841")


def judge_copy(home: Path, seeds: Mapping[str, str]) -> PathJudgement:
    """Judge a copy of a published v5.1 entry, with other seeds, in a folder of that name."""
    org = CORPUS / "inference_v5.1" / "closed" / "ASUSTeK"
    copy = home / "closed" / "ASUSTeK"
    for part in ("results", "compliance", "measurements"):
        below = Path(part, SYSTEM, "llama2-70b-99")
        if (org / below).exists():
            shutil.copytree(org / below, copy / below)
    shutil.copytree(org / "code", copy / "code")
    (copy / "systems").mkdir()
    shutil.copy(org / "systems" / f"{SYSTEM}.json", copy / "systems")
    for path in (each for each in home.rglob("mlperf_log_*.txt") if seeds):
        text = re.sub("|".join(seeds), lambda found: seeds[found[0]], path.read_text())
        path.unlink()  # the corpus may be linked
        path.write_text(text)
    return Judge().judge_path(str(home))


@pytest.mark.parametrize("seeds", [EARLIER_SEEDS, ("0", "0", "0")])
def test_another_round_s_configuration_is_found_out(tmp_path: Path, seeds: tuple[str, ...]) -> None:
    """It was judged by the round of the seeds, and was valid; with seeds of none it was unknown."""
    found = judge_copy(tmp_path / "inference_v5.1", dict(zip(SEEDS, seeds, strict=True)))
    assert (found.round, found.verdict) == ("inference-v5.1", Verdict.BROKEN)
    errors = {each.advice for each in found.findings if each.severity is Severity.ERROR}
    assert any("inference-v5.0: its mlperf.conf" in each for each in errors) is (seeds[0] != "0")


def test_one_accident_with_a_configuration_is_one_finding_for_each_run(tmp_path: Path) -> None:
    """Each of the three seeds was a finding, with the same advice."""
    found = judge_copy(
        tmp_path / "inference_v5.1", dict(zip(SEEDS, EARLIER_SEEDS, strict=True))
    ).findings
    told = [each for each in found if each.rule == "inference-mllog.seeds"]
    assert told and len(told) == len({each.file for each in told})
    assert all(seed in told[0].found for seed in EARLIER_SEEDS)


def test_seeds_of_two_rounds_are_not_said_to_be_those_of_one(tmp_path: Path) -> None:
    mixed = (EARLIER_SEEDS[0], *SEEDS[1:])
    found = judge_copy(tmp_path / "inference_v5.1", dict(zip(SEEDS, mixed, strict=True))).findings
    told = [each for each in found if each.rule == "inference-mllog.seeds"]
    assert told and not any("mlperf.conf was used" in each.advice for each in told)


def test_a_benchmark_that_the_round_retired_is_said_to_be_one(tmp_path: Path) -> None:
    """It was valid, by an earlier round, in the later one's folder."""
    found = judge_copy(tmp_path / "inference_v6.1", {})
    assert (found.round, found.verdict) == ("inference-v6.1", Verdict.BROKEN)
    assert any(each.advice.startswith("it was last measured in") for each in found.findings)


@pytest.mark.parametrize("name", ["inference_v5.1", "inference_results", "my-copy"])
def test_a_folder_of_its_own_round_or_of_none_changes_nothing(tmp_path: Path, name: str) -> None:
    found = judge_copy(tmp_path / name, {})
    assert (found.round, found.verdict) == ("inference-v5.1", Verdict.VALID), found.findings


@pytest.mark.parametrize("place", ["closed", "copies", "."])
def test_a_copy_outside_its_division_says_what_was_left_out(tmp_path: Path, place: str) -> None:
    """The compliance tests were not looked at, without a word."""
    judge_copy(tmp_path / "copy", {})
    home = tmp_path / "copy" / place / "ASUSTeK"
    home.parent.mkdir(exist_ok=True)
    (tmp_path / "copy" / "closed" / "ASUSTeK").rename(home)
    told = render_text_report([Judge().judge_path(str(home))]).splitlines()[0]
    assert ("not checked: the closed division's rules of 2" in told) is (place != "closed"), told
