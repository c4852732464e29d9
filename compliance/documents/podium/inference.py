"""A LoadGen run and an inference entry, with the round's row that judges them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from compliance.documents import unjudged_files as strays
from compliance.documents.headline import Headline, headline_of, indexed
from compliance.documents.podium.system_description import SystemFile
from compliance.documents.podium.training import TrainingLog, finite
from compliance.logs import telemetry
from compliance.logs.loadgen import accuracy_log as answer_log
from compliance.logs.loadgen import query_times
from compliance.logs.loadgen import summary as summary_text
from compliance.logs.loadgen.accuracy_log import Answers
from compliance.logs.loadgen.query_times import QueryTimes
from compliance.logs.loadgen.summary import Summary
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import Record
from compliance.logs.source_file import Kind, SourceFile, read_document, read_text
from compliance.logs.telemetry import Telemetry
from compliance.recognition.tree_path import Place, is_file, scenario_of
from compliance.verdict import Fault, Severity
from suite.files.layout import ACCURACY, DETAIL, QUERIES, RUN_RECORD, SUMMARY, TELEMETRY, folder_sha256
from suite.loadgen.scenario import Scenario
from suite.records import CalibrationRecord, RunRecord
from suite.rounds import Benchmark, InferenceRow, Round, ScenarioRow
from suite.terms import Profile
from suite.workload import Mode, Scores

RECORD: Final = msgspec.json.Decoder(RunRecord)
RUN_FIELDS: Final = frozenset(field.name for field in fields(RunRecord))
POWER_TIME: Final = "%m-%d-%Y %H:%M:%S.%f"
"""mlcommons/inference, loadgen/utils.cc: DateTimeStringForPower."""
SCORE: Final = re.compile(r"([A-Za-z0-9_.-]+)=([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?), hash=([0-9a-f]{64})")


class Measurements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The measurements file of a scenario (schema measurements.json)."""

    input_data_types: str
    retraining: str
    starting_weights_filename: str
    weight_data_types: str
    weight_transformations: str
    workload: str
    round: str
    profile: str
    scenario: str
    engine: str
    precision: str
    framework: str
    device: str
    threads: int
    checkpoint_sha256: str
    reference_accuracy: Mapping[str, float]
    truth_sha256: str
    """suite.files.layout.folder_sha256 of the truth that was scored against."""
    settings: Mapping[str, Any]
    engine_description: Mapping[str, Any]
    calibration: Mapping[str, CalibrationRecord] = {}
    """Network -> what its ranges come from."""


MEASUREMENTS: Final = msgspec.json.Decoder(Measurements)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenRun:
    """One LoadGen run: its three files and podium's record of it."""

    folder: Path
    mode: Mode
    scenario: Scenario | None
    """By its folder, else by the record."""
    summary: Summary
    detail: Sequence[Record]
    index: Mapping[str, Sequence[Record]]
    """Key of the detail log -> its records."""
    answers: Answers
    record: RunRecord | None
    queries: QueryTimes | None
    """None where the run has no such record, as those from before it was kept, or where it is not whole."""
    telemetry: Telemetry | None
    """None where the run has none."""
    sources: Sequence[SourceFile]
    strays: Sequence[Path]
    """What lies in its folder and is none of its files."""
    round: Round

    @property
    def row(self) -> Benchmark | None:
        """The workload's row in the round."""
        return self.round.benchmarks.get(self.record.workload) if self.record else None

    @property
    def inference(self) -> InferenceRow | None:
        """The row's inference half under the record's profile."""
        profile = next((each for each in Profile if self.record and each == self.record.profile), None)
        return self.row.inference.get(profile) if self.row and profile else None

    @property
    def rule(self) -> ScenarioRow | None:
        """The scenario's row."""
        return self.inference.scenarios.get(self.scenario) if self.inference and self.scenario else None

    @property
    def performance(self) -> bool:
        """It is a performance run."""
        return self.mode is Mode.PERFORMANCE

    def value(self, key: str) -> Any:
        """Give the first value of a key of the detail log, None where there is none."""
        return self.index[key][0].value if key in self.index else None

    def number(self, key: str) -> float | None:
        """Give a value of the detail log as a finite number, None where it is none."""
        value = self.value(key)
        return float(value) if finite(value) else None

    def numbers(self, *keys: str) -> tuple[float, ...] | None:
        """Give several, None where one is missing."""
        found = [self.number(key) for key in keys]
        return None if None in found else tuple(each for each in found if each is not None)

    def line(self, key: str) -> int | None:
        """Give the line of a key in the detail log."""
        return self.index[key][0].line if key in self.index else None

    @property
    def headline(self) -> Headline | None:
        """Give the result; None where the scenario is not known or the detail log has no such number."""
        return headline_of(self.index, self.scenario)

    @property
    def span_ms(self) -> float | None:
        """Milliseconds from the generated queries to the result, by the detail log's clock; a little more than the run."""
        begin, end = self.index.get("generated_query_count"), self.index.get("result_validity")
        return end[0].event.time_ms - begin[0].event.time_ms if begin and end else None

    @property
    def wall_ms(self) -> float | None:
        """Milliseconds between LoadGen's wall-clock stamps around the queries; None where the log has none (before 1.1)."""
        begin, end = (power_time(self.value(key)) for key in ("power_begin", "power_end"))
        return (end - begin).total_seconds() * 1000 if begin and end else None

    def detail_fault(self, key: str, found: str, required: str, advice: str | None = None) -> Fault:
        """Say what does not hold in the detail log, at the line of a key."""
        return Fault(file=self.folder / DETAIL, line=self.line(key), found=found, required=required, advice=advice)

    def summary_fault(self, name: str, found: str, required: str) -> Fault:
        """Say what does not hold in the summary, at the line of a name."""
        return Fault(file=self.folder / SUMMARY, line=self.summary.line(name), found=found, required=required)

    def fault(self, file: str, found: str, required: str, line: int | None = None, severity: Severity | None = None) -> Fault:
        """Say what does not hold in another file of the run."""
        return Fault(file=self.folder / file, line=line, found=found, required=required, severity=severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEntry:
    """One scenario of one benchmark on one system: an accuracy run and performance runs."""

    folder: Path
    scenario: Scenario | None
    accuracy: LoadGenRun | None
    performance: Sequence[LoadGenRun]
    unfinished: Sequence[Path]
    strays: Sequence[Path]
    """What lies in its folders and is no run."""
    accuracy_text: Mapping[str, tuple[float, str, int]]
    """accuracy.txt: metric -> score, hash, line."""
    measurements: Measurements | None
    measurements_path: Path | None
    system: SystemFile | None
    origins: Sequence[TrainingLog]
    """Training logs of the tree that name this entry's checkpoint."""
    truth: Path | None
    """The folder that was scored against: packed, or the user's."""
    scores: Scores | None
    """Recomputed from the accuracy log and the truth; None where that could not be done."""
    unscored: str | None
    """Why not."""
    place: Place | None
    round: Round

    @property
    def runs(self) -> Sequence[LoadGenRun]:
        """All LoadGen runs."""
        return [*([self.accuracy] if self.accuracy else []), *self.performance]

    @property
    def record(self) -> RunRecord | None:
        """The record of the accuracy run, else of the first that has one."""
        return next((run.record for run in self.runs if run.record), None)

    @property
    def rule(self) -> ScenarioRow | None:
        """The scenario's row."""
        return next((run.rule for run in self.runs if run.rule), None)

    @property
    def inference(self) -> InferenceRow | None:
        """The row's inference half."""
        return next((run.inference for run in self.runs if run.inference), None)

    @property
    def workload(self) -> str | None:
        """The workload, by the records."""
        return self.record.workload if self.record else None

    @property
    def truth_sha256(self) -> str | None:
        """The hash of the truth; None where there is none, or where it cannot be read."""
        try:
            return folder_sha256(self.truth) if self.truth else None
        except OSError:
            return None

    def fault(self, found: str, required: str, file: Path | None = None, line: int | None = None, severity: Severity | None = None) -> Fault:
        """Say what does not hold in this entry."""
        return Fault(file=file or self.folder, line=line, found=found, required=required, severity=severity)


def power_time(text: object) -> datetime | None:
    """Read one of LoadGen's wall-clock stamps; None where it is none."""
    try:
        return datetime.strptime(text, POWER_TIME) if isinstance(text, str) else None
    except ValueError:
        return None


def read_run(folder: Path, mode: Mode, scenario: Scenario | None, round: Round) -> LoadGenRun:
    """Read a run's four files; what is wrong with them are flaws of its sources."""
    sources = {name: SourceFile(folder / name) for name in (SUMMARY, DETAIL, ACCURACY, RUN_RECORD)}
    detail = list(mllog_lines.read(sources[DETAIL]))
    run = read_document(sources[RUN_RECORD], RECORD, RUN_FIELDS)
    # a run counts without these two, so what is wrong with them does not void it
    beside = [name for name in (QUERIES, TELEMETRY) if mode is Mode.PERFORMANCE and is_file(folder / name)]
    sources |= {name: SourceFile(folder / name, leniency=dict.fromkeys(Kind, Severity.WARNING)) for name in beside}
    return LoadGenRun(
        folder=folder,
        mode=mode,
        scenario=scenario or scenario_of(run.scenario if run else None),
        summary=summary_text.read(sources[SUMMARY]),
        detail=detail,
        index=indexed(detail),
        answers=answer_log.read(sources[ACCURACY]),
        record=run,
        queries=query_times.read(sources[QUERIES]) if QUERIES in sources else None,
        telemetry=telemetry.read(sources[TELEMETRY]) if TELEMETRY in sources else None,
        sources=tuple(sources.values()),
        strays=tuple(strays.in_run(folder, mode)),
        round=round,
    )


def mode_of(folder: Path) -> Mode:
    """Say what a run was for, by the name of its folder."""
    return Mode.ACCURACY if folder.name.casefold() == Mode.ACCURACY else Mode.PERFORMANCE


def read_scores(source: SourceFile) -> Mapping[str, tuple[float, str, int]]:
    """Read accuracy.txt: metric -> score, hash, line; a line of another form is a flaw."""
    found: dict[str, tuple[float, str, int]] = {}
    text = read_text(source, 1 << 20)
    for number, line in enumerate(text.splitlines(), 1):
        match = SCORE.fullmatch(line.strip())
        if match is None:
            source.add(Kind.RECORD, f"'{line[:80]}'", "<metric>=<score>, hash=<SHA-256 of the accuracy log>", number)
        elif match[1] in found:
            source.add(Kind.DUPLICATE, f"'{match[1]}' occurs twice", "each metric once", number)
        else:
            found[match[1]] = (float(match[2]), match[3], number)
    return found


def read_measurements(place: Place | None, sources: list[SourceFile]) -> tuple[Measurements | None, Path | None]:
    """Read the one measurements file of an entry in a tree."""
    if place is None or not (place.system and place.benchmark and place.scenario):
        return None, None
    folder = place.home / "measurements" / place.system / place.benchmark / place.scenario.folder
    path = folder / f"{place.system}_podium_{place.scenario.folder}.json"
    source = SourceFile(path)
    sources.append(source)
    return read_document(source, MEASUREMENTS), path
