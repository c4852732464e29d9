"""Read the file of a load generator, whichever it is, and the answers of a curve of podium's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec

from submissions.beside.aiperf import read_aiperf_runs
from submissions.beside.figures import (
    Definition,
    StatedRun,
    compute_answer_figures,
)
from submissions.beside.guidellm import read_guidellm_runs
from submissions.beside.vllm_bench import read_vllm_runs
from suite.errors import JudgedError, RequestError
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.studies.answer_figures import AnswerTimes, build_answer_times
from suite.studies.concurrency_curve import CURVE_KIND
from suite.studies.documents import STUDY_FILE
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.run_facts import read_run_facts

MARKS: Final[Mapping[bytes, Callable[[bytes], Iterator[StatedRun]]]] = {
    b'"guidellm_version"': read_guidellm_runs,
    b'"aiperf_version"': read_aiperf_runs,
    b'"output_throughput"': read_vllm_runs,
}
"""Keys that only one program's files have -> what reads them."""
PROGRAMS: Final = "guidellm, AIPerf or vllm bench serve"
MAX_FILE_BYTES: Final = 1 << 30
"""guidellm writes some 5 kB for each request."""


def read_stated_runs(path: Path) -> Sequence[StatedRun]:
    """Read the runs in a load generator's file; RequestError for another file."""
    try:
        found = read_untrusted_file(path, parse_stated_runs, MAX_FILE_BYTES)
    except UnreadableError as error:
        raise RequestError(f"--beside {path}: {error.reason}") from error
    if not found:
        raise RequestError(f"--beside {path}: not the JSON of {PROGRAMS}, or without a run")
    return found


def parse_stated_runs(content: bytes) -> Sequence[StatedRun]:
    """Parse the runs of a file; none of a program that is not known, msgspec's error for a file
    that is damaged.
    """
    for mark, read in MARKS.items():
        if mark in content:
            return tuple(read(content))
    msgspec.json.decode(content)  # what is no JSON is told as that
    return ()


def find_curve(paths: Sequence[Path]) -> tuple[Path, MeasuredStudy]:
    """Return the first curve among some paths, with its folder; RequestError if there is none."""
    for path in paths:
        for folder in (path, *sorted(path.glob("studies/*"))):
            if not (folder / STUDY_FILE).is_file():
                continue
            study = read_measured_study(folder)
            if study.kind.name == CURVE_KIND:
                return folder, study
    raise RequestError(
        "--beside: give the folder of a curve, which has a point with as many requests in flight:"
        " podium curve ... --points N"
    )


def list_concurrencies(study: MeasuredStudy) -> list[int]:
    """Return the requests in flight of a curve's points that have runs."""
    return [each.point.concurrency for each in study.points if each.runs]


def compute_point_figures(
    folder: Path, study: MeasuredStudy, in_flight: int, definition: Definition
) -> Mapping[str, float]:
    """Compute the figures of a curve's point as a program defines them: the mean of its runs. Empty
    if the curve has no such point.
    """
    found = [
        compute_answer_figures(read_answer_times(folder / run.folder), definition)
        for each in study.points
        if each.point.concurrency == in_flight
        for run in each.runs
    ]
    if not found:
        return {}
    return {key: fmean(each[key] for each in found if key in each) for key in found[0]}


def read_answer_times(folder: Path) -> AnswerTimes:
    """Read the answers of a run; JudgedError if their records are not there."""
    facts = read_run_facts(folder)
    if facts.tokens is None or facts.starts_ns is None or not len(facts.tokens):
        raise JudgedError(f"{folder}: its records of answers are lost")
    if len(facts.starts_ns) != len(facts.tokens):
        raise JudgedError(f"{folder}: its records of answers do not fit one another")
    return build_answer_times(facts.starts_ns, facts.tokens, facts.arrivals)
