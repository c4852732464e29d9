"""Writes what the judge finds in all examples, mutants and published results to one file, so that
a change of the judge's structure can be held against the state before, byte for byte.

Usage: python tests/compliance/findings_snapshot.py FILE [--part examples|mutants|corpus ...]
    [--most N]

Two files are compared with `diff`. Published results are read from PODIUM_CORPUS (tests/compliance/
corpus.py); without them, only the examples are judged.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

HERE: Final = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "builders"), str(HERE.parent / "shared")]

from corpus import CORPUS, PUBLISHED  # noqa: E402 - from these folders
from examples import result_of  # noqa: E402
from judged_examples import EXAMPLES, STAMP, ensure_examples  # noqa: E402
from mutants.families import Inference, Training  # noqa: E402
from mutants.judging import Court  # noqa: E402

from compliance.verdict import Finding, PathJudgement  # noqa: E402

PARTS: Final = ("examples", "mutants", "corpus")
MUTANTS_PER_KIND: Final = 2
"""Bases that each kind of mutant is put into, as the tests do."""


def describe_finding(finding: Finding, folder: str) -> dict[str, Any]:
    """Describe a finding in full, with paths relative to a folder."""
    return {
        "rule": finding.rule,
        "file": finding.file.replace(folder, "."),
        "line": finding.line,
        "severity": finding.severity,
        "about": finding.about,
        "doubt": finding.doubt,
        "weight": finding.weight,
        "found": finding.found.replace(folder, "."),
        "required": finding.required.replace(folder, "."),
        "advice": finding.advice.replace(folder, "."),
        "source": finding.source,
        "unchecked": finding.unchecked,
    }


def format_judgement(name: str, judged: PathJudgement | str, folder: str) -> Iterator[str]:
    """Yield a line for what was judged and one for each finding; a failure of the judge is its
    text.
    """
    if isinstance(judged, str):
        yield json.dumps({"path": name, "failed": judged.replace(folder, ".")})
        return
    head = {
        "path": name,
        "round": judged.round,
        "verdict": judged.verdict,
        "recognised_by": judged.recognised_by.replace(folder, "."),
        "other_rounds": list(judged.other_rounds),
        "results": [
            [result.kind, result.path.replace(folder, "."), result.files, result.verdict]
            for result in judged.results
        ],
    }
    yield json.dumps(head)
    yield from sorted(
        json.dumps({"path": name, **describe_finding(finding, folder)})
        for finding in judged.findings
    )


class WritingCourt(Court):
    """Keeps the judgement of every path that a family of mutants asks for."""

    lines: list[str]
    folder: str

    def result(self, path: Path) -> PathJudgement | str:
        """Judge a path and keep what was found."""
        judged = super().result(path)
        name = f"mutant {len(self.lines)}: {path}".replace(self.folder, ".")
        self.lines.extend(format_judgement(name, judged, self.folder))
        return judged


def judge_mutants(most: int) -> Iterator[str]:
    """Judge all families of mutants, in the order in which they are made."""
    with TemporaryDirectory(prefix="podium-snapshot-") as folder:
        training = Training.of(CORPUS, Path(folder) / "training", most)
        inference = Inference.of(CORPUS, Path(folder) / "inference", most)
        for family in (training, inference):
            court = WritingCourt(truth=family.court.truth)
            court.lines, court.folder = [], folder
            family.court = court
        training.alarms(), training.logs(), training.sets(), list(training.harmless())
        inference.entries(), list(inference.harmless())
        for family in (training, inference):
            assert isinstance(family.court, WritingCourt)
            yield from family.court.lines


def judge_examples() -> Iterator[str]:
    """Judge each example as the tests do, by the labels and the tokenizer that lie in it."""
    ensure_examples()
    for folder in sorted(path for path in EXAMPLES.glob("*/*") if path.name != STAMP):
        name = folder.relative_to(EXAMPLES).as_posix()
        yield from format_judgement(name, result_of(folder), str(EXAMPLES))


def judge_published_folders() -> Iterator[str]:
    """Judge every published folder by a judge of its own, as a user would who stands above it."""
    before = Path.cwd()
    os.chdir(PUBLISHED)
    court = Court(truth=PUBLISHED)
    try:
        for path in sorted(Path().rglob("*")):
            if path.is_dir():
                yield from format_judgement(str(path), court.result(path), str(PUBLISHED))
    finally:
        os.chdir(before)


def judge_part(part: str, most: int) -> Iterator[str]:
    """Judge one part of what there is."""
    if part == "examples":
        yield from judge_examples()
    elif not PUBLISHED.is_dir():
        print(f"{part}: skipped, no published results at {PUBLISHED}", file=sys.stderr)
    elif part == "mutants":
        yield from judge_mutants(most)
    else:
        yield from judge_published_folders()


def main() -> None:
    """Write the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--most", type=int, default=MUTANTS_PER_KIND)
    options = parser.parse_args()
    with options.file.open("w", encoding="utf-8") as out:
        for part in options.part or PARTS:
            for count, line in enumerate(judge_part(part, options.most), start=1):
                print(f"{part} {line}", file=out)
                if count % 1000 == 0:
                    print(f"{part}: {count} lines", file=sys.stderr)


if __name__ == "__main__":
    main()
