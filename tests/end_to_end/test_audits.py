"""`podium run --audit`: the compliance tests between serving and packing, in the bundle and before
the judge.
"""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from suite.audits.names import GENERAL_TESTS
from suite.files.layout import ACCURACY_LOG, VERIFY_PERFORMANCE
from suite.loadgen.scenario import Scenario

Podium = Callable[..., "subprocess.CompletedProcess[str]"]
SLEEPS = ("--set", "fake.sleep_ms=8", "--set", "server.qps_share=0.06")
"""A device whose speed a busy machine hardly changes."""


@pytest.mark.slow
def test_a_campaign_with_audits_is_sealed_with_all_of_them_and_an_edited_answer_is_found(
    podium: Podium, forked: Podium, tmp_path: Path, fake: Sequence[str]
) -> None:
    """Twelve tests, all passed, in the bundle; none of them is run again by the same command; the
    judge believes the logs and not the words.
    """
    words = (
        "run",
        "fake",
        "--results",
        tmp_path / "results",
        "--seed",
        1,
        *fake,
        *SLEEPS,
        "--audit",
    )
    made = forked(*words)
    assert made.returncode == 0, made.stdout + made.stderr
    stated = sorted((tmp_path / "results").rglob(VERIFY_PERFORMANCE))
    told = {
        (path.parents[1].name, path.parent.name): "TEST PASS" in path.read_text() for path in stated
    }
    assert told == {
        (scenario.folder, str(test)): True for scenario in Scenario for test in GENERAL_TESTS
    }
    (bundle,) = (tmp_path / "results").glob("bundles/*.tar.zst")
    assert (
        podium("verify", bundle).returncode == 0
        and podium("check", bundle, tmp_path / "results").returncode == 0
    )
    again = podium(*words)
    assert again.returncode == 0 and "audit: already finished" in again.stdout
    log = next(
        path
        for path in sorted((tmp_path / "results").rglob(ACCURACY_LOG))
        if "TEST01" in path.parts and path.stat().st_size > 100
    )
    text = log.read_text()
    place = text.index('"data" : "') + len('"data" : "')
    log.write_text(text[:place] + ("B" if text[place] != "B" else "C") + text[place + 1 :])
    found = podium("check", tmp_path / "results")
    assert found.returncode == 1 and "audit." in found.stdout
