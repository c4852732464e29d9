"""The examples of the rules about compliance tests: an Offline result with a test of two turns."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import making
from kinds.tokens import count_one_more
from making import LOADS, NONCE, RESNET50, SHA256, Load, Subject, load_of
from making_llama import build_llama_subject
from spoiling import Builder, add, first_answer, put, remove, setting, swap, then

from harness.serving.audits import files
from suite import registry
from suite.audits.names import AuditTest
from suite.audits.outcome import AuditOutcome
from suite.audits.rules import AuditRules, require_audit_rules
from suite.audits.tokens import check_token_answers
from suite.audits.verdict import compare_audit_runs, select_compared_metric
from suite.files.layout import (
    ACCURACY_LOG,
    AUDIT_RECORD,
    DETAIL_LOG,
    REFERENCE_RUNS_FOLDER,
    VERIFY_PERFORMANCE,
    compute_file_sha256,
)
from suite.loadgen.logged_answers import read_logged_tokens
from suite.loadgen.scenario import Scenario
from suite.records import AuditRecord
from suite.terms import Profile

OFF: Final = Scenario.OFFLINE
TURNS: Final = 2
BEGIN_MS: Final = 200_000.0
"""When the first run begins; the result's ended a minute before."""
APART_MS: Final = 10_000.0
TESTS: Final = f"open/acme/compliance/*/{making.ROW.inference_name}/Offline"


def audited(
    test: AuditTest,
    faster: float = 1.0,
    rules: str = "podium-v1",
    subject: Callable[[], Subject] = lambda: RESNET50,
) -> Builder:
    """A tree with one test; its runs are so many times faster than the result."""

    def build(folder: Path) -> None:
        making.write_tree(folder, OFF, subject=subject())
        write_test(folder, test, require_audit_rules(rules), faster, subject())

    return build


def write_test(
    root: Path,
    test: AuditTest,
    rules: AuditRules,
    faster: float = 1.0,
    subject: Subject = RESNET50,
) -> Path:
    """The runs of a test in turns, with the files that podium writes beside them."""
    where, name = making.entry_of(root), subject.row.inference_name
    knobs = rules.tests[test].build_loadgen_settings(test, OFF, name, NONCE, SHA256)
    place = where.locate_audits(name, OFF) / test
    plain = load_of(OFF, subject)
    _, key = select_compared_metric(rules, OFF)
    figures: dict[str, list[float]] = {REFERENCE_RUNS_FOLDER: [], "performance": []}
    for number in range(2 * TURNS):
        kind = (REFERENCE_RUNS_FOLDER, "performance")[number % 2]
        special = (
            replace(plain, special=knobs, lowest_ns=int(plain.lowest_ns / faster))
            if number % 2
            else plain
        )
        load: Load = replace(special, begin_ms=BEGIN_MS + number * APART_MS)
        run = making.write_run(place / kind / f"run_{number // 2 + 1}", load, "performance", where)
        figures[kind].append(float(value(run / DETAIL_LOG, key)))
    told = AuditRecord(
        system_sha256=compute_file_sha256(place / "system.json"),
        rules="podium-v1",
        repeated=0,
        command=("podium", "audit", subject.workload),
    )
    compared = compare_audit_runs(
        rules, rules.tests[test], OFF, figures[REFERENCE_RUNS_FOLDER], figures["performance"]
    )
    outcome = AuditOutcome(
        test=test,
        compared=compared,
        reference=tuple(figures[REFERENCE_RUNS_FOLDER]),
        found=tuple(figures["performance"]),
        has_invalid_run=False,
        **check_answers(place, test),
    )
    files.write_audit_files(place, told, knobs, outcome)
    return place


def check_answers(place: Path, test: AuditTest) -> dict[str, Any]:
    """What podium finds in the answers that the test's runs logged."""
    if test is AuditTest.TEST01:
        return {"answers": TURNS * LOADS[OFF].samples_per_query}
    if test is not AuditTest.TEST06:
        return {}
    answers, wrong, checks = check_token_answers(
        (each for run in place.glob("performance/run_*") for each in read_logged_tokens(run)),
        registry.list_end_tokens("llama", Profile.SMOKE),
    )
    return {"answers": answers, "differing": wrong, "token_checks": checks}


def value(path: Path, key: str) -> Any:
    """Read a value of a detail log."""
    return next(
        making.json.loads(line[9:])["value"]
        for line in path.read_text().splitlines()
        if f'"key": "{key}"' in line
    )


def spoilt(
    pattern: str, change: Callable[[Path], object], test: AuditTest = AuditTest.TEST04
) -> Builder:
    """A test with one of its files changed."""
    return then(audited(test), f"{TESTS}/{test}/{pattern}", change)


BASES: Final[Mapping[str, Builder]] = {
    "audited": audited(AuditTest.TEST04),
    "audited-answers": audited(AuditTest.TEST01),
    "audited-tokens": audited(AuditTest.TEST06, subject=build_llama_subject),
}
KINDS: Final = {"audit": "audited"}
VALID: Final[Mapping[str, str | Builder]] = {
    "audit.answers": "audited-answers",
    "audit.tokens": "audited-tokens",
}
INVALID: Final[Mapping[str, Builder]] = {
    "audit.result": spoilt(AUDIT_RECORD, put(system_sha256="7b" * 32)),
    "audit.settings": spoilt(
        f"performance/run_1/{DETAIL_LOG}", setting("effective_performance_issue_same", False)
    ),
    "audit.turns": spoilt(f"{REFERENCE_RUNS_FOLDER}/run_2", remove),
    "audit.speed": then(
        audited(AuditTest.TEST04, faster=4.0),
        f"**/TEST04/{VERIFY_PERFORMANCE}",
        swap("TEST FAIL", "TEST PASS"),
    ),
    "audit.answers": spoilt(
        f"performance/run_1/{ACCURACY_LOG}",
        first_answer(lambda line: line.replace("000000", "000001")),
        AuditTest.TEST01,
    ),
    "audit.tokens": then(
        audited(AuditTest.TEST06, subject=build_llama_subject),
        f"**/TEST06/performance/run_1/{ACCURACY_LOG}",
        first_answer(count_one_more),
    ),
    "audit.told": spoilt(VERIFY_PERFORMANCE, swap(r"ratio = [0-9.]+", "ratio = 1.02")),
    "audit.failed": audited(AuditTest.TEST04, faster=4.0),
    "audit.strays": spoilt("performance", add("notes.txt", "the second try\n")),
}
