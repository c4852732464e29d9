"""Counts forgeries that the judge finds: a finished result is copied, edited as a cheat would edit
it, and judged.

The edits are those that files suffice to find and that were not found once: the time of training,
records that are left out, facts that two documents state. After each, the hashes and links of the
ledger are computed again, unless the edit is about them. A forgery is found if `podium check` has
an error or a warning that the result as it was has not. One that edits what the result has not
(tokens, compliance tests) is left out.

RESULT is a results folder or a bundle, without it the example's. Edits of a time by less than 2 s
and 1 % are within the judge's slack: take a result that trains for minutes. The exit code is 0 if
every forgery is found, 1 otherwise.

Usage: python benchmarks/forgeries.py [RESULT] [--ids ID,...] [--format text|json] [--tiny]
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from common.tiny import TINY, add_tiny_option
from forged_runs.edits import iterate_variants
from forged_runs.tree import ForgedTree, Inapplicable

from compliance.bundle.archive import unpack_bundle
from compliance.judge import Judge
from compliance.verdict import Severity

SAMPLE: Final = Path(__file__).resolve().parents[1] / "examples" / "resnet50-smoke.tar.zst"
FOUND_BY_ERROR: Final = "error"
FOUND_BY_WARNING: Final = "warning"
MISSED: Final = "nothing"
INAPPLICABLE: Final = "left out"
TINY_IDS: Final = ("V03", "Z03", "D01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One forgery in one size, and what became of it."""

    id: str
    what: str
    size: str
    outcome: str
    rules: tuple[str, ...] = ()
    """The rules that found it, errors first."""


def copy_result(result: Path, folder: Path) -> Path:
    """Copy a results folder, or unpack a bundle."""
    if result.is_file():
        unpack_bundle(result, folder)
        (folder / "manifest.json").unlink()
    else:
        shutil.copytree(result, folder, ignore=shutil.ignore_patterns(".podium", "bundles"))
    return folder


def list_findings(folder: Path) -> Counter[tuple[Severity, str, str]]:
    """Judge a folder; count its findings by severity, rule and file."""
    findings = Judge().judge_path(str(folder)).findings
    return Counter(
        (each.severity, each.rule, each.file.removeprefix(str(folder)))
        for each in findings
        if each.severity is not Severity.INFO
    )


def attempt(
    original: Path,
    folder: Path,
    edit: Callable[[ForgedTree], object],
    known: Counter[tuple[Severity, str, str]],
) -> tuple[str, tuple[str, ...]]:
    """Forge a copy and judge it; return what came of it, and the rules that found it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    tree = ForgedTree(folder)
    try:
        edit(tree)
        if tree.is_relinked:
            tree.relink()
    except Inapplicable:
        return INAPPLICABLE, ()
    new = list_findings(folder) - known
    errors = sorted({rule for severity, rule, _ in new if severity is Severity.ERROR})
    warnings = sorted({rule for severity, rule, _ in new if severity is Severity.WARNING})
    if errors:
        return FOUND_BY_ERROR, (*errors, *(each for each in warnings if each not in errors))
    return (FOUND_BY_WARNING if warnings else MISSED), tuple(warnings)


def iterate_attempts(original: Path, ids: Sequence[str], work: Path) -> Iterator[Attempt]:
    """Try each forgery in each size."""
    known = list_findings(original)
    for forgery, size, edit in iterate_variants(ids, TINY):
        outcome, rules = attempt(original, work / "forged", edit, known)
        yield Attempt(id=forgery.id, what=forgery.what, size=size, outcome=outcome, rules=rules)


def print_attempt(each: Attempt) -> None:
    """Print one line."""
    print(f"{each.id:<6}{each.outcome:<10}{each.what}: {each.size}  {', '.join(each.rules)}")


def parse_arguments() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_tiny_option(parser)
    parser.add_argument("result", nargs="?", type=Path, default=SAMPLE, help="results or bundle")
    parser.add_argument("--ids", default="", help="forgeries, separated by commas; all without")
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    return parser.parse_args()


def main() -> int:
    """Forge, judge and count."""
    options = parse_arguments()
    ids = [word for word in options.ids.split(",") if word] or [*(TINY_IDS if TINY else ())]
    attempts = []
    with tempfile.TemporaryDirectory() as folder:
        original = copy_result(options.result, Path(folder) / "original")
        for each in iterate_attempts(original, ids, Path(folder)):
            attempts.append(each)
            if options.form == "text":
                print_attempt(each)
    counts = Counter(each.outcome for each in attempts)
    if options.form == "json":
        print(json.dumps({"counts": counts, "attempts": [asdict(each) for each in attempts]}))
    else:
        print(
            f"{len(attempts) - counts[INAPPLICABLE]} forgeries: {counts[FOUND_BY_ERROR]} errors,"
            f" {counts[FOUND_BY_WARNING]} warnings, {counts[MISSED]} not found;"
            f" {counts[INAPPLICABLE]} left out"
        )
    return int(counts[MISSED] > 0)


if __name__ == "__main__":
    sys.exit(main())
