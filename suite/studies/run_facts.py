"""What the files of one LoadGen run say, as studies compute their figures from them: read by the
harness and by reports from a folder, and by the judge from the documents that it has checked.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from suite import registry
from suite.errors import PodiumError
from suite.files.layout import (
    ARRIVAL_RECORD_FILE,
    GAP_RECORD_FILE,
    LOGPROB_FILE,
    QUERY_RECORD_FILE,
    REFERENCE_LOGPROB_FILE,
    ROOM_RECORD_FILE,
    START_RECORD_FILE,
    TELEMETRY_FILE,
    TOKEN_RECORD_FILE,
    USAGE_RECORD_FILE,
)
from suite.files.npy_files import map_npy_array
from suite.files.untrusted_files import UnreadableError
from suite.loadgen.arrival_record import AnswerArrivals, build_answer_arrivals
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.logprob_record import REFERENCE_FIELDS, SAID_FIELDS
from suite.loadgen.query_record import QUERY_RECORD_FIELDS, QueryTimes
from suite.loadgen.token_record import TOKEN_RECORD_FIELDS, TokenTimes
from suite.loadgen.usage_record import USAGE_RECORD_FIELDS, PromptUsage
from suite.measurement.run_energy import read_loadgen_power
from suite.records import EnergyRecord, ServedRun, read_served_run
from suite.studies.answered_set import (
    SCORER_EXCEPTIONS,
    AnsweredSet,
    build_answered_set,
)
from suite.studies.documents import STUDY_TRUTH_FOLDER
from suite.workload import Scores

MODE_KEY: Final = "effective_test_mode"
ACCURACY_MODE: Final = "AccuracyOnly"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunFacts(DetailLog):
    """What the files of a run say: its detail log, and the records beside it."""

    record: ServedRun
    queries: QueryTimes | None = None
    """This and the following are None without their file."""
    tokens: TokenTimes | None = None
    starts_ns: Any = None
    """When each prompt began, in the order of `tokens`."""
    arrivals: AnswerArrivals | None = None
    """What arrived of each answer, towards servers."""
    usage: PromptUsage | None = None
    """What servers count of prompts."""
    rooms_ns: Any = None
    """When a place was free for each prompt, towards servers."""
    folder: Path
    """Of the run."""
    scores: Scores | None = None
    """Of an accuracy run, by the workload's scorer; None if its answers cannot be scored."""
    answers: AnsweredSet | None = None
    """Of an accuracy run."""
    said: Any = None
    """How likely the system found its answers (suite/loadgen/logprob_record.py)."""
    reference: Any = None
    """How likely PyTorch finds them."""

    @property
    def has_answers(self) -> bool:
        """Return whether it is an accuracy run, which answers every sample once."""
        return self.values.get(MODE_KEY) == ACCURACY_MODE

    def compute_energy(self) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
        """Compute the energy by each power channel, and why a channel gives none; both empty if no
        power was read.
        """
        try:
            found = read_loadgen_power(self.folder, self.find_scenario(), self.values.get)
        except UnreadableError as error:
            return (), () if error.missing else (f"{TELEMETRY_FILE}: {error.reason}",)
        if not (found.readings.tracks or found.readings.absent):
            return (), ()
        return found.compute_energy()


def read_run_facts(folder: Path) -> RunFacts:
    """Read the files of a run; UnreadableError without its records, JudgedError for a damaged
    log.
    """
    record = read_served_run(folder)
    log = read_detail_log(folder)
    scores = answered = None
    if log.values.get(MODE_KEY) == ACCURACY_MODE:
        answers = dict(read_logged_answers(folder))
        scores = score_study_answers(record.system.workload, answers, locate_study_truth(folder))
        answered = build_study_answers(record, folder, answers)
    queries, tokens = (find_array(folder / each) for each in (QUERY_RECORD_FILE, TOKEN_RECORD_FILE))
    return RunFacts(
        folder=folder,
        record=record,
        values=log.values,
        errors=log.errors,
        queries=None if queries is None else build_query_times(queries),
        tokens=None if tokens is None else build_token_times(tokens),
        starts_ns=find_array(folder / START_RECORD_FILE),
        rooms_ns=find_array(folder / ROOM_RECORD_FILE),
        arrivals=build_answer_arrivals(
            find_array(folder / ARRIVAL_RECORD_FILE), find_array(folder / GAP_RECORD_FILE)
        ),
        usage=build_prompt_usage(find_array(folder / USAGE_RECORD_FILE)),
        scores=scores,
        answers=answered,
        said=find_rows(folder / LOGPROB_FILE, SAID_FIELDS),
        reference=find_rows(folder / REFERENCE_LOGPROB_FILE, REFERENCE_FIELDS),
    )


def locate_study_truth(run_folder: Path) -> Path:
    """Return the folder of the ground truth of a run's study."""
    return run_folder.parents[1] / STUDY_TRUTH_FOLDER


def build_study_answers(
    record: ServedRun, run_folder: Path, answers: Mapping[int, bytes]
) -> AnsweredSet:
    """Return the answers of an accuracy run, with the ground truth of its study."""
    truth = locate_study_truth(run_folder)
    return build_answered_set(record.system.workload, record.system.profile, truth, answers)


def score_study_answers(workload: str, answers: Mapping[int, bytes], truth: Path) -> Scores | None:
    """Score the answers of an accuracy run; None if there is no ground truth, or the scorer cannot
    read them. Both are untrusted bytes.
    """
    try:
        scores = dict(registry.load_scorer(workload)(answers, truth))
    except (PodiumError, *SCORER_EXCEPTIONS):
        return None
    return scores if all(map(math.isfinite, scores.values())) else None


def find_array(path: Path) -> Any:
    """Memory-map the array of a file; None if it is missing or damaged."""
    try:
        return map_npy_array(path)
    except UnreadableError:
        return None


def find_rows(path: Path, fields: tuple[tuple[str, str], ...]) -> Any:
    """Memory-map the rows of a file; None if it is missing or damaged, or has other fields."""
    table = find_array(path)
    return None if table is None or table.ndim != 1 or table.dtype != list(fields) else table


def build_query_times(table: Any) -> QueryTimes | None:
    """Build the times of queries from the rows of their file; None for another form."""
    if table.dtype != list(QUERY_RECORD_FIELDS):
        return None
    return QueryTimes(
        issued_ns=table["issued_ns"],
        done_ns=table["done_ns"],
        batch=table["batch"],
        samples=table["samples"],
    )


def build_prompt_usage(table: Any) -> PromptUsage | None:
    """Build the counts of prompts from the rows of their file; None for another form."""
    if table is None or table.ndim != 2 or table.shape[1] != len(USAGE_RECORD_FIELDS):
        return None
    columns = {name: table[:, place] for place, name in enumerate(USAGE_RECORD_FIELDS)}
    return PromptUsage(**columns)


def build_token_times(table: Any) -> TokenTimes | None:
    """Build the times of tokens from the rows of their file; None for another form."""
    if table.ndim != 2 or table.shape[1] != len(TOKEN_RECORD_FIELDS):
        return None
    columns = {name: table[:, place] for place, name in enumerate(TOKEN_RECORD_FIELDS)}
    return TokenTimes(**columns)
