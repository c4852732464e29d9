"""MLCommons' own checkers, where they are installed: each runs in a process of its own on a
finished tree, and its verdict stands beside podium's, place by place, differences first.
"""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Protocol

import msgspec

from compliance.verdict import Finding, Severity
from submissions.submit.shortfalls import join_places, shorten_list
from suite.errors import MissingError
from suite.files.scratch import create_temporary_folder
from suite.files.untrusted_files import UnreadableError, read_untrusted_file

MAX_CHECK_SECONDS: Final = 1800
MAX_LISTED: Final = 4
DIGITS: Final = re.compile(r"[0-9]+")
ENDPOINTS_PACKAGE: Final = "endpoints-submission-cli"
ENDPOINTS_PROGRAM: Final = "from submission_checker.cli import main; main()"
TRAINING_PACKAGE: Final = "mlperf-logging"
TRAINING_PROGRAM: Final = "mlperf_logging.package_checker"
PASSED_TEXT: Final = "PACKAGE CHECKER FOUND NO ERRORS"
FAILED_TEXT: Final = "PACKAGE CHECKER FOUND ERRORS"
LOG_LINE_PATTERN: Final = re.compile(
    r"\b(INFO|WARNING|ERROR|CRITICAL)(?: -|:[A-Za-z0-9_.]+:|\]) ?(.*)"
)
"""A line of a checker's log: mlperf-logging's, and Inference's since v6.0 and before."""
FOLDER_TEXT: Final = "Running compliance checks in dir "
SOUND_TEXT: Final = "SUMMARY: submission looks OK"
UNSOUND_TEXT: Final = "SUMMARY: submission has errors"
INFERENCE_PROGRAMS: Final = (
    "tools/submission/submission_checker/main.py",
    "tools/submission/submission_checker.py",
)
"""Where a checkout of mlcommons/inference has its checker: since v6.0, and before."""
INFERENCE_PACKAGE: Final = """
import runpy, sys, types
package = types.ModuleType("submission_checker")
package.__path__ = [sys.argv.pop(1)]
sys.modules["submission_checker"] = package
runpy.run_module("submission_checker.main", run_name="__main__", alter_sys=True)
"""
"""Runs the package of a checkout from its folder: it has no `__init__.py`, and
endpoints-submission-cli installs another package of that name, which would come first.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFinding:
    """One message of an official checker."""

    severity: Severity
    rule: str
    """Its name; empty if the checker names none."""
    text: str
    place: str
    """Relative to the submission; empty if it names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialVerdict:
    """What an official checker says of a submission."""

    checker: str
    """Its name and version."""
    passed: bool
    findings: Sequence[OfficialFinding]


class OfficialChecker(Protocol):
    """An official checker that is installed."""

    def check_submission(self, submission: Path, round_name: str) -> OfficialVerdict:
        """Check a submission's folder by the rules of a round."""


class ReportedResult(msgspec.Struct, frozen=True):
    """A message in the report of `endpoints-submission-cli`."""

    rule: str
    message: str
    severity: str
    path: str | None = None


class EndpointsReport(msgspec.Struct, frozen=True):
    """The report of `endpoints-submission-cli`."""

    results: tuple[ReportedResult, ...]
    passed: bool


REPORT_DECODER: Final = msgspec.json.Decoder(EndpointsReport)


class EndpointsChecker:
    """`endpoints-submission-cli` of PyPI."""

    def check_submission(self, submission: Path, round_name: str) -> OfficialVerdict:
        """Check a submission of curves; its own rules are those of its version."""
        name = require_package(ENDPOINTS_PACKAGE)
        with create_temporary_folder() as folder:
            report = folder / "report.json"
            said = run_checker(
                ["-c", ENDPOINTS_PROGRAM, "check", str(submission), "--output", str(report)], folder
            )
            try:
                found = read_untrusted_file(report, REPORT_DECODER.decode)
            except UnreadableError as error:
                return build_crash(name, said, error)
        findings = [
            OfficialFinding(
                severity=Severity(each.severity),
                rule=each.rule,
                text=f"{each.rule}: {each.message}",
                place=locate_below(each.path, submission),
            )
            for each in found.results
            if each.severity in (Severity.ERROR, Severity.WARNING)
        ]
        return OfficialVerdict(checker=name, passed=found.passed, findings=findings)


class TrainingChecker:
    """The package checker of `mlperf-logging` of PyPI."""

    def check_submission(self, submission: Path, round_name: str) -> OfficialVerdict:
        """Check an organisation's submission by the ruleset of a round."""
        name = require_package(TRAINING_PACKAGE)
        ruleset = round_name.rpartition("-v")[2] + ".0"
        with create_temporary_folder() as folder:
            log = folder / "package_checker.log"
            said = run_checker(
                ["-m", TRAINING_PROGRAM, str(submission), "training", ruleset]
                + ["--log_output", str(log)],
                folder,
            )
        passed = PASSED_TEXT in said
        findings = parse_checker_log(said, submission)
        if not passed and FAILED_TEXT not in said:
            return build_crash(name, said)
        return OfficialVerdict(checker=f"{name}, {ruleset}", passed=passed, findings=findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceChecker:
    """The submission checker in a checkout of mlcommons/inference."""

    checkout: Path

    def check_submission(self, submission: Path, round_name: str) -> OfficialVerdict:
        """Check the tree that an organisation's submission lies in."""
        programs = (self.checkout / each for each in INFERENCE_PROGRAMS)
        program = next((each for each in programs if each.is_file()), None)
        if program is None:
            raise MissingError(
                f"--checker {self.checkout}: no {' or '.join(INFERENCE_PROGRAMS)} in it;"
                " name a checkout of mlcommons/inference"
            )
        arguments = [str(program.resolve())]
        if program.name == "main.py":
            arguments = ["-c", INFERENCE_PACKAGE, str(program.parent.resolve())]
        tree = submission.parents[1]
        version_name = round_name.rpartition("-")[2]
        with create_temporary_folder() as folder:
            said = run_checker(
                [*arguments, "--input", str(tree), "--version", version_name]
                + ["--submitter", submission.name, "--csv", str(folder / "summary.csv")],
                folder,
            )
        name = f"submission_checker of {self.checkout.name}, {version_name}"
        findings = [
            locate_message(each, tree, submission) for each in parse_checker_log(said, tree)
        ]
        passed = SOUND_TEXT in said
        if not passed and UNSOUND_TEXT not in said:
            return build_crash(name, said)
        return OfficialVerdict(checker=name, passed=passed, findings=findings)


def require_package(name: str) -> str:
    """Return a package's name and version; MissingError if it is not installed."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        raise MissingError(
            f"--checker: {name} is not installed; install it: pip install {name}"
        ) from None


def run_checker(arguments: Sequence[str], folder: Path) -> str:
    """Run Python with arguments in a folder, and return what it prints; MissingError if it does
    not end.
    """
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            capture_output=True,
            check=False,
            timeout=MAX_CHECK_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise MissingError(f"--checker: no end after {MAX_CHECK_SECONDS} s") from error
    return (done.stderr + done.stdout).decode(errors="replace")


def build_crash(name: str, said: str, error: object = None) -> OfficialVerdict:
    """Build the verdict of a checker that fell over a submission: a failure, with its last line."""
    lines = said.strip().splitlines() or [str(error)]
    crash = OfficialFinding(
        severity=Severity.ERROR, rule="", text=f"ended with {lines[-1]}", place=""
    )
    return OfficialVerdict(checker=name, passed=False, findings=[crash])


def parse_checker_log(said: str, submission: Path) -> list[OfficialFinding]:
    """Return the errors and warnings in the lines that a checker logs, each with the folder that it
    was checking.
    """
    place, findings = "", list[OfficialFinding]()
    for line in said.splitlines():
        match = LOG_LINE_PATTERN.search(line)
        if match is None:
            continue
        level, text = match[1], match[2].strip()
        if text.startswith(FOLDER_TEXT):
            place = locate_below(text.removeprefix(FOLDER_TEXT), submission)
        if level in ("WARNING", "ERROR", "CRITICAL"):
            severity = Severity.WARNING if level == "WARNING" else Severity.ERROR
            findings.append(OfficialFinding(severity=severity, rule="", text=text, place=place))
    return findings


def locate_message(message: OfficialFinding, tree: Path, submission: Path) -> OfficialFinding:
    """Return a message with the place that its first word names, if that is a path in the tree."""
    path = tree / message.text.partition(" ")[0].rstrip(":,")
    if not path.is_relative_to(submission) or not path.exists():
        return message
    return replace(message, place=str(path.relative_to(submission)))


def locate_below(path: str | None, submission: Path) -> str:
    """Return a path relative to a submission; empty for none, and for one elsewhere."""
    if path and Path(path).is_relative_to(submission):
        return str(Path(path).relative_to(submission))
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinions:
    """The errors that both checkers find in one place: what tells them apart -> its words."""

    ours: Mapping[str, str]
    theirs: Mapping[str, str]

    @property
    def is_shared(self) -> bool:
        """Return whether both find errors."""
        return bool(self.ours) and bool(self.theirs)

    @property
    def kind(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what places have in common that get the same opinions."""
        return tuple(sorted(self.ours)), tuple(sorted(self.theirs))


def iterate_opinion_lines(
    findings: Iterable[Finding], said: OfficialVerdict, submission: Path
) -> Iterator[str]:
    """Yield both verdicts, then the places in which one of them finds an error, those first where
    the other finds none.
    """
    errors = [each for each in findings if each.severity is Severity.ERROR]
    refused = [each for each in said.findings if each.severity is Severity.ERROR]
    yield f"podium: {tell_verdict(not errors)}, errors: {len(errors)}"
    yield f"{said.checker}: {tell_verdict(said.passed)}, errors: {len(refused)}"
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    opinions = collect_opinions(errors, refused, submission)
    for place, each in opinions.items():
        groups[each.kind].append(place)
    for places in sorted(groups.values(), key=lambda each: opinions[each[0]].is_shared):
        first = opinions[places[0]]
        word = "both find errors" if first.is_shared else "only one finds errors"
        yield f"{', '.join(join_places(places))}: {word}"
        yield from format_opinion("podium", first.ours.values())
        yield from format_opinion("official", first.theirs.values())


def collect_opinions(
    errors: Iterable[Finding], refused: Iterable[OfficialFinding], submission: Path
) -> dict[str, Opinions]:
    """Collect the errors of both by the folder that they are about."""
    ours, theirs = defaultdict[str, dict[str, str]](dict), defaultdict[str, dict[str, str]](dict)
    for finding in errors:
        place = find_folder(Path(finding.file), submission)
        ours[place].setdefault(finding.rule, f"{finding.rule}: {finding.found}")
    for message in refused:
        place = find_folder(submission / message.place, submission)
        text = message.text.replace(f"{submission}/", "")
        theirs[place].setdefault(DIGITS.sub("0", message.rule or text), text)
    return {
        place: Opinions(ours=ours.get(place, {}), theirs=theirs.get(place, {}))
        for place in sorted({*ours, *theirs})
    }


def find_folder(path: Path, submission: Path) -> str:
    """Return the folder that a path is, or is in, relative to a submission; `.` for the submission
    itself, and for what lies elsewhere.
    """
    folder = path if path.is_dir() else path.parent
    if folder.is_relative_to(submission):
        return str(folder.relative_to(submission))
    return "."


def tell_verdict(passed: bool) -> str:
    """Return the word for a verdict."""
    return "passed" if passed else "failed"


def format_opinion(who: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield the lines of what a checker says of a place."""
    listed = list(texts) or ["no error"]
    for text in shorten_list(listed, MAX_LISTED):
        yield f"    {who}: {text}"
