"""Every compliance test of the published entries at hand is computed again from its logs, whatever
its script printed.
"""

from collections import Counter
from typing import Any

import pytest
from corpus import CORPUS

from compliance.judge import Judge
from compliance.kinds.inference_mllog.rules import tests as later
from compliance.kinds.inference_text.rules import audit_figures
from compliance.verdict import Finding

COMPARED = frozenset({"TEST01", "TEST03", "TEST04", "TEST04-B", "TEST05"})
OTHER_LOGS = ("3d-unet-99/Offline/TEST01", "3d-unet-99.9/Offline/TEST01")
"""v6.0: the run that is filed with them has 11,500 times the speed of the result, that of another
benchmark.
"""
OTHER_ANSWERS = "Habana/audit/Goya_1/resnet/Offline/TEST01"
"""v0.5: the script printed TEST PASS, since the first byte of a float32 that is a whole number
below 2^16 is 0.
"""
RULES = ("inference-text.audit_speed", "inference-text.audit_answers", "inference-mllog.test_speed")


@pytest.fixture(scope="module")
def recomputed() -> tuple[Counter[tuple[str, bool]], list[Finding]]:
    """Whether each comparison of speeds could be made, by test; and what was found."""
    seen: Counter[tuple[str, bool]] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (audit_figures, "compare_audit_run"),
            (later, "compare_mllog_audit_test"),
        ):
            patch.setattr(module, name, counted(getattr(module, name), seen))
        trees = sorted(CORPUS.glob("inference_v*"))
        found = [
            finding
            for tree in trees
            for finding in Judge(truth=CORPUS).judge_path(str(tree)).findings
            if finding.rule in RULES
        ]
    return seen, found


def counted(compared: Any, seen: Counter[tuple[str, bool]]) -> Any:
    """Count what a comparison came to."""

    def count(test: Any) -> Any:
        result = compared(test)
        if test.run and (test.run.index if hasattr(test.run, "index") else test.run.summary.values):
            seen[test.name, result is not None] += 1
        return result

    return count


@pytest.mark.slow
def test_every_filed_test_with_logs_is_recomputed(
    recomputed: tuple[Counter[tuple[str, bool]], list[Finding]],
) -> None:
    """TEST04-A is what TEST04-B is compared with; later tests compare no speeds."""
    seen, _ = recomputed
    missed = {name: count for (name, made), count in seen.items() if not made and name in COMPARED}
    assert sum(count for (name, made), count in seen.items() if made) >= 197 and not missed


@pytest.mark.slow
def test_what_does_not_hold_is_known(
    recomputed: tuple[Counter[tuple[str, bool]], list[Finding]],
) -> None:
    """Two entries have the run of another benchmark in the place of TEST01's, and one has other
    answers than in its accuracy run. The others with another speed say themselves that they failed.
    """
    _, found = recomputed
    speeds = [
        finding
        for finding in found
        if finding.rule.endswith("speed") and "/dividiti/" not in finding.file
    ]
    (answers,) = [finding for finding in found if finding.rule == "inference-text.audit_answers"]
    assert len(speeds) == 2 and all(
        any(place in finding.file for place in OTHER_LOGS) for finding in speeds
    )
    assert (
        OTHER_ANSWERS in answers.file
        and answers.found.startswith("different answers to 805 of 1024 samples")
        and "top-1 of the first answers 21.1 %" in answers.found
    )
