"""Read an entry of a published inference round that was measured with the Endpoints client."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.endpoints.result_summary import Series
from compliance.documents.endpoints.run import EndpointsRun, read_endpoints_run
from compliance.documents.inference_mllog.run import parse_scenario_folder
from compliance.logs.source_file import SourceFile, read_json_document
from compliance.recognition.endpoints_files import ENDPOINTS_RUN_FOLDERS, ENDPOINTS_SUMMARY_PATHS
from compliance.recognition.path_kind import has_loadgen_logs
from compliance.recognition.tree_path import TreePosition, is_file
from compliance.verdict import About, Fault, Severity
from suite.rounds.inference_mllog import InferenceMllogModel, InferenceMllogRound

ACCURACY_RESULTS: Final = "accuracy/accuracy_results.json"


class ResponseCounts(msgspec.Struct, frozen=True):
    """How many answers of a data set there are."""

    issued: int | None = None
    scored: int | None = None
    empty: int | None = None
    missing: int | None = None


class AccuracyScore(msgspec.Struct, frozen=True):
    """The score of one data set."""

    dataset_name: str = ""
    score: int | float | Mapping[str, Any] | None = None
    total_samples: int | None = None
    complete: bool | None = None
    dataset_type: str | None = None
    breakdown: Mapping[str, Any] | None = None
    response_counts: ResponseCounts = ResponseCounts()
    output_sequence_lengths: Series = Series()

    @property
    def counts_for_accuracy(self) -> bool:
        """Return whether the score is of an accuracy data set, not of the performance run."""
        return self.dataset_type in (None, "accuracy")


class AccuracyResults(msgspec.Struct, frozen=True):
    """`accuracy/accuracy_results.json`."""

    average_accuracy: int | float | None = None
    accuracy_scores: tuple[AccuracyScore, ...] = ()

    def list_scores(self) -> Sequence[AccuracyScore]:
        """Return the scores of accuracy data sets."""
        return [each for each in self.accuracy_scores if each.counts_for_accuracy]


ACCURACY_DECODER: Final = msgspec.json.Decoder(AccuracyResults)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsEntry:
    """One scenario of a system and benchmark, measured with the Endpoints client."""

    document_name: ClassVar[str] = "an entry of MLPerf Endpoints"

    folder: Path
    scenario: str | None
    benchmark: str | None
    model: InferenceMllogModel | None
    division: str | None
    run: EndpointsRun
    accuracy_source: SourceFile
    accuracy: AccuracyResults | None
    round: InferenceMllogRound

    @property
    def is_closed(self) -> bool:
        """Return whether the closed division's rules apply."""
        return self.division == "closed"

    def build_fault(
        self,
        found: str,
        required: str,
        *,
        file: Path | None = None,
        severity: Severity | None = None,
    ) -> Fault:
        """Build a Fault about the entry's summary, or another of its files."""
        return Fault(
            file=file or self.run.summary_source.path,
            found=found,
            required=required,
            severity=severity,
        )

    def compute_claims(self) -> Mapping[str, float]:
        """Return the metrics of the accuracy results in the row's unit: of several data sets the
        mean, by their samples.
        """
        sums, weights = defaultdict[str, float](float), defaultdict[str, float](float)
        for metric, score, samples in self.iterate_scores():
            sums[metric] += score * samples
            weights[metric] += samples
        return {metric: sums[metric] / weights[metric] for metric in sums if weights[metric]}

    def iterate_scores(self) -> Iterator[tuple[str, float, float]]:
        """Yield metric, score in the row's unit and samples of each data set. A single score, whose
        metric the client does not name, is the row's only one.
        """
        if self.accuracy is None or self.model is None:
            return
        minimums = self.model.find_minimums(self.scenario)
        scale = self.model.endpoints_scale
        for each in self.accuracy.list_scores():
            scores = each.score if isinstance(each.score, Mapping) else None
            if scores is None and isinstance(each.score, int | float) and len(minimums) == 1:
                scores = {next(iter(minimums)): each.score}
            named = {metric.casefold(): metric for metric in minimums}
            for name, score in (scores or {}).items():
                metric = named.get(name.replace("_", "").casefold(), named.get(name.casefold()))
                if metric and isinstance(score, int | float):
                    yield metric, float(score) * scale, float(max(each.total_samples or 1, 1))


def find_endpoints_summary(folder: Path) -> Path | None:
    """Return the Endpoints client's summary in a scenario's folder; None if there is none, or
    LoadGen's logs are there as well.
    """
    if any(has_loadgen_logs(folder / name) for name in ENDPOINTS_RUN_FOLDERS):
        return None
    summaries = (folder / name for name in ENDPOINTS_SUMMARY_PATHS)
    return next((path for path in summaries if is_file(path)), None)


def read_endpoints_entry(
    folder: Path, summary: Path, place: TreePosition | None, round: InferenceMllogRound
) -> EndpointsEntry:
    """Read an entry; every problem becomes a parse error of its file."""
    benchmark = round.find_benchmark(folder.parent.name)
    accuracy_source = SourceFile(folder / ACCURACY_RESULTS, about=About.QUALITY)
    return EndpointsEntry(
        folder=folder,
        scenario=parse_scenario_folder(folder.name),
        benchmark=benchmark,
        model=round.models.get(benchmark or ""),
        division=place.division if place else None,
        run=read_endpoints_run(folder, summary),
        accuracy_source=accuracy_source,
        accuracy=read_json_document(accuracy_source, ACCURACY_DECODER),
        round=round,
    )
