"""How an honest run ended, and what the judge says of it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

SUMMARY: Final = "mlperf_log_summary.txt"
MOVED_ASIDE: Final = frozenset({".podium"})
RESTATED: Final = frozenset(
    {
        "loadgen.bound",
        "loadgen.early_stopping",
        "loadgen.errors",
        "loadgen.duration",
        "loadgen.queries",
        "loadgen.valid",
        "entry.runs",
        "tokens.bounds",
    }
)
"""Rules that say of a run again what LoadGen said when it called it INVALID."""
WRONG_WORDS: Final = re.compile(r"\brestore\b|\bunmodified\b|\bas the run wrote\b|\bdo not edit\b")
"""Advice to somebody who has changed a file; of an honest run it is wrong."""
CHECK_LIMIT_S: Final = 300.0


class LoadGenRun(msgspec.Struct, frozen=True, kw_only=True):
    """One performance run of LoadGen."""

    folder: str
    valid: bool
    reason: str


class Accusation(msgspec.Struct, frozen=True, kw_only=True):
    """A finding about an honest run."""

    rule: str
    severity: str
    file: str
    found: str
    required: str
    advice: str
    of_valid: bool
    """Whether LoadGen called the run VALID, or the finding is of no single run."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one command, or of one after the other."""

    runs: list[LoadGenRun]
    errors: list[Accusation]
    wrong_words: list[Accusation]
    check_failed: str = ""
    """What the judge said instead of a verdict."""


def judge(results: Path, judged: str) -> Judgement:
    """Judge everything that honest commands have left."""
    runs = [read_loadgen_run(path, results) for path in list_summaries(results)]
    targets = list_targets(results, runs, judged)
    if not targets:
        return Judgement(runs=runs, errors=[], wrong_words=[])
    command = [sys.executable, "-m", "harness", "check", *map(str, targets), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_LIMIT_S)
    try:
        document = json.loads(done.stdout)
    except json.JSONDecodeError:
        said = (done.stderr or done.stdout).strip()[-500:]
        return Judgement(runs=runs, errors=[], wrong_words=[], check_failed=said or "nothing")
    found = list(dict.fromkeys(iterate_accusations(document, results, runs)))
    return Judgement(
        runs=runs,
        errors=[each for each in found if each.severity == "error"],
        wrong_words=[each for each in found if each.severity != "error"],
    )


def list_summaries(results: Path) -> list[Path]:
    """List the summaries of LoadGen's performance runs that stand in the results."""
    found = [
        path
        for path in sorted(results.rglob(SUMMARY))
        if not MOVED_ASIDE & set(path.relative_to(results).parts)
        and not any(part.endswith(".partial") for part in path.parts)
    ]
    return [path for path in found if "PerformanceOnly" in path.read_text(errors="replace")]


def read_loadgen_run(summary: Path, results: Path) -> LoadGenRun:
    """Read LoadGen's verdict and its reasons."""
    text = summary.read_text(errors="replace")
    unmet = re.findall(r"^ *([A-Z][\w ]+? satisfied) *: *NO", text, re.M)
    errors = re.findall(r"^(\d+) ERRORS? encountered", text, re.M)
    reasons = [each.lower().replace(" satisfied", "") for each in unmet]
    reasons += [f"{each} errors" for each in errors]
    valid = "Result is : VALID" in text
    return LoadGenRun(
        folder=str(summary.parent.relative_to(results)),
        valid=valid,
        reason="" if valid else ", ".join(reasons) or "no reason in the summary",
    )


def list_targets(results: Path, runs: Sequence[LoadGenRun], judged: str) -> list[Path]:
    """List what is judged: each run of LoadGen in a submission's layout, and the whole folder."""
    folders = [results / each.folder for each in runs if "performance" in each.folder]
    whole = [results] if results.is_dir() and runs else []
    return [*(folders if "runs" in judged else []), *(whole if "folder" in judged else [])]


def iterate_accusations(
    document: Any, results: Path, runs: Sequence[LoadGenRun]
) -> Iterator[Accusation]:
    """Yield the errors of honest runs, and the warnings whose advice is for forgers."""
    for result in document["results"]:
        for finding in result["findings"]:
            file = str(finding["file"]).removeprefix(f"{results}/")
            invalid = any(file.startswith(each.folder) for each in runs if not each.valid)
            restated = finding["rule"] in RESTATED and invalid
            error = finding["severity"] == "error"
            if restated or not (error or WRONG_WORDS.search(finding["advice"])):
                continue
            yield Accusation(
                rule=finding["rule"],
                severity=finding["severity"],
                file=file,
                found=finding["found"],
                required=finding["required"],
                advice=finding["advice"],
                of_valid=not invalid,
            )
