"""Read a point of a curve of MLPerf Endpoints: its disclosure, run, system and accuracy.

Source: Endpoints rules, 8.1 to 8.3.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import Document
from compliance.kinds.endpoints.documents.accuracy import (
    REQUEST_LOG,
    EndpointsAccuracy,
    read_endpoints_accuracy,
    read_logged_scores,
)
from compliance.kinds.endpoints.documents.measurement import EndpointsMeasurement
from compliance.kinds.endpoints.documents.result_summary import ResultSummary
from compliance.kinds.endpoints.documents.run import (
    AGENTIC_PATTERN,
    EndpointsRun,
    read_endpoints_run,
)
from compliance.kinds.endpoints.documents.settings_table import SettingsTable, read_settings_table
from compliance.kinds.endpoints.recognition import POINT_FILE, POINT_SUMMARY
from compliance.kinds.endpoints_curve.tree import parse_point_folder
from compliance.logs.source_file import SourceFile, read_json_document
from compliance.verdict import About
from suite.rounds.endpoints_curve import EndpointsModel, EndpointsRound
from suite.units import MS_PER_S, NS_PER_MS, NS_PER_S

SYSTEM_FILE: Final = "system_desc.json"
POINT_ACCURACY: Final = "accuracy_results.json"
SYSTEM_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
DEDICATED: Final = "dedicated"
ELECTED: Final = "elected"
WINDOWABLE: Final = "windowable"
FIGURE_PERCENTILE: Final = 90.0
MAX_CONCURRENCY: Final = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFigures:
    """What a point's run amounts to, computed from its summary; None where that has no values.

    Source: Endpoints rules, 4.1.
    """

    system_tps: float | None
    """Output tokens of all answers, divided by the run's duration."""
    tps_per_user: float | None
    """Tokens per second of one answer: 1000 / TPOT P90 in ms; of an agentic benchmark the tokens of
    all turns, divided by their time.
    """
    ttft_p90_ms: float | None
    tpot_p90_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsPoint(Document):
    """One point of a curve: a run at a fixed concurrency, or the Offline run."""

    document_name: ClassVar[str] = "a point of MLPerf Endpoints"

    folder: Path
    root: Path
    """The submission's folder."""
    disclosure_source: SourceFile
    disclosure: SettingsTable | None
    run: EndpointsRun
    system_source: SourceFile
    system: Mapping[str, Any] | None
    accuracy: EndpointsAccuracy | None
    """None if the point has no accuracy results."""
    model: EndpointsModel | None
    round: EndpointsRound

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.disclosure_source.path

    @property
    def summary(self) -> ResultSummary | None:
        """Return the summary of the point's run."""
        return self.run.summary

    @property
    def concurrency(self) -> int | None:
        """Requests in flight, as disclosed, or else as in the folder's name."""
        disclosed = self.find_integer("concurrency")
        if disclosed is None:
            return parse_point_folder(self.folder)
        return disclosed

    @property
    def offline(self) -> str | None:
        """Return how the point is the Offline result: `dedicated`, `elected`, or not at all."""
        found = self.find_text("offline")
        if found in (DEDICATED, ELECTED):
            return found
        return None

    @property
    def is_offline_run(self) -> bool:
        """Return whether the point is a run of its own for Offline, without latencies."""
        return self.offline == DEDICATED

    @property
    def load_pattern(self) -> str | None:
        """Return the load pattern that the point discloses, or else that of its run."""
        found = self.find_text("runtime_settings", "load_pattern")
        summary = self.summary
        return found or (summary.run_config.load_pattern.type if summary else None)

    @property
    def is_agentic(self) -> bool:
        """Return whether the benchmark is agentic."""
        if self.model:
            return self.model.agentic
        return self.load_pattern == AGENTIC_PATTERN

    @property
    def data_set_name(self) -> str | None:
        """Return the name of the data set, which stands alone or beside the number of samples."""
        return self.find_text("dataset") or self.find_text("dataset", "name")

    @property
    def subset_size(self) -> int | None:
        """Return how many samples of its data set the point has, if it states that."""
        return self.find_integer("dataset", "n_samples_from_dataset")

    @property
    def is_windowed(self) -> bool:
        """Return whether the point claims a steady window that supplies the official figures."""
        return self.find_text("steady_state", "status") == WINDOWABLE

    def find_value(self, *path: str) -> Any:
        """Return a disclosed value at a path of keys; None if there is none."""
        if self.disclosure:
            return self.disclosure.find_value(*path)
        return None

    def find_text(self, *path: str) -> str | None:
        """Return a disclosed text; None if there is none."""
        found = self.find_value(*path)
        if isinstance(found, str) and found:
            return found
        return None

    def find_number(self, *path: str) -> int | float | None:
        """Return a disclosed number; None if there is none that is finite."""
        found = None
        if self.disclosure:
            found = self.disclosure.find_number(*path)
        if found is not None and math.isfinite(found):
            return found
        return None

    def find_integer(self, *path: str) -> int | None:
        """Return a disclosed count; None if there is none, or it is beyond any count."""
        found = self.find_number(*path)
        if isinstance(found, int) and abs(found) <= MAX_CONCURRENCY:
            return found
        return None

    def compute_figures(self) -> PointFigures:
        """Compute the point's figures from its summary; an Offline run has no latencies."""
        summary = self.summary
        if summary is None:
            return PointFigures(
                system_tps=None, tps_per_user=None, ttft_p90_ms=None, tpot_p90_ms=None
            )
        ttft, tpot = (
            None if self.is_offline_run else scale_to_ms(each.find_percentile(FIGURE_PERCENTILE))
            for each in (summary.ttft, summary.tpot)
        )
        rate = MS_PER_S / tpot if tpot else None
        return PointFigures(
            system_tps=compute_system_tps(summary),
            tps_per_user=compute_interactivity(summary) if self.is_agentic else rate,
            ttft_p90_ms=ttft,
            tpot_p90_ms=tpot,
        )


def measure_point(point: EndpointsPoint) -> EndpointsMeasurement:
    """Return what was measured at a point: an accuracy run may have more requests in flight, as
    many as the system supports.
    """
    supported, held = point.find_integer("max_supported_concurrency"), point.concurrency
    factor = 1.0
    if supported and held and 0 < held < supported:
        factor = supported / held
    most_tokens = None
    if point.model:
        most_tokens = point.model.most_tokens
    return EndpointsMeasurement(
        run=point.run, accuracy=point.accuracy, most_tokens=most_tokens, concurrency_factor=factor
    )


def scale_to_ms(nanoseconds: float | None) -> float | None:
    """Return a positive time in milliseconds; None for no, or no positive, time."""
    if nanoseconds is not None and nanoseconds > 0:
        return nanoseconds / NS_PER_MS
    return None


def compute_system_tps(summary: ResultSummary) -> float | None:
    """Return the tokens of all answers per second of the run."""
    tokens, duration = summary.output_sequence_lengths.total, summary.duration_ns
    if tokens is None or not duration or duration < 0:
        return None
    return tokens * NS_PER_S / duration


def compute_interactivity(summary: ResultSummary) -> float | None:
    """Return the tokens of all turns, divided by the time that they took.

    Source: Endpoints rules, 4.1: e2e_avg_interactivity; the client's sums are those of lengths and
    latencies, if no request failed.
    """
    tokens, seconds = summary.output_tokens_per_turn_total, summary.e2e_turn_time_seconds_total
    if tokens is None and seconds is None and not summary.n_samples_failed:
        tokens, total = summary.output_sequence_lengths.total, summary.latency.total
        seconds = None
        if total is not None:
            seconds = total / NS_PER_S
    if tokens is None or not seconds or seconds < 0:
        return None
    return tokens / seconds


def read_endpoints_point(folder: Path, root: Path, round: EndpointsRound) -> EndpointsPoint:
    """Read a point; every problem becomes a parse error of its file."""
    disclosure_source = SourceFile(folder / POINT_FILE, about=About.RULES)
    disclosure = read_settings_table(disclosure_source)
    named = None
    if disclosure:
        named = disclosure.find_value("model_name")
    model = round.find_model(folder.parent.name) or round.find_model(
        named if isinstance(named, str) else None
    )
    system_source = SourceFile(folder / SYSTEM_FILE, about=About.IDENTITY)
    accuracy = None
    if accuracy_file := find_accuracy_file(folder):
        accuracy = read_endpoints_accuracy(
            accuracy_file,
            scale=model.accuracy_scale if model else 1.0,
            required_samples=model.accuracy_samples if model else None,
        )
    return EndpointsPoint(
        folder=folder,
        root=root,
        disclosure_source=disclosure_source,
        disclosure=disclosure,
        run=read_endpoints_run(folder, folder / POINT_SUMMARY, tolerates_failures=True),
        system_source=system_source,
        system=read_json_document(system_source, SYSTEM_DECODER),
        accuracy=accuracy,
        model=model,
        round=round,
    )


def find_accuracy_file(folder: Path) -> Path | None:
    """Return the file with a point's accuracy results, which older builds of the client wrote into
    the log of requests; None if there is none.
    """
    own, log = folder / POINT_ACCURACY, folder / REQUEST_LOG
    if os.path.lexists(own):
        return own
    if read_logged_scores(log):
        return log
    return None
