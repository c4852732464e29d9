"""Read the accuracy results of the Endpoints client."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.endpoints.result_summary import Series
from compliance.logs.source_file import SourceFile, read_json_document
from compliance.verdict import About, Fault, Severity

ACCURACY_TYPES: Final = (None, "accuracy")
PERFORMANCE_TYPE: Final = "performance"
UNNAMED_METRIC: Final = "score"
"""Key of a score whose metric the client does not name."""


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
    """Samples with their repeats."""
    unit_samples: int | None = None
    num_repeats: int | None = None
    complete: bool | None = None
    dataset_type: str | None = None
    breakdown: Mapping[str, Any] | None = None
    response_counts: ResponseCounts | None = None
    output_sequence_lengths: Series | None = None

    @property
    def counts_for_accuracy(self) -> bool:
        """Return whether the score is of an accuracy data set, not of the performance run."""
        return self.dataset_type in ACCURACY_TYPES

    @property
    def counts(self) -> ResponseCounts:
        """How many answers there are, as far as it is stated."""
        return self.response_counts or ResponseCounts()

    @property
    def lengths(self) -> Series:
        """Lengths of the answers, in tokens; without values if they are not stated."""
        return self.output_sequence_lengths or Series()

    def list_scores(self) -> Mapping[str, float]:
        """Return the scores by their metric; some of the client's scorers write numbers as text."""
        named = self.score if isinstance(self.score, Mapping) else {UNNAMED_METRIC: self.score}
        found = {name: parse_score(value) for name, value in named.items()}
        return {name: value for name, value in found.items() if value is not None}


class AccuracyResults(msgspec.Struct, frozen=True):
    """`accuracy_results.json`."""

    average_accuracy: int | float | None = None
    accuracy_scores: tuple[AccuracyScore, ...] = ()

    def list_scores(self) -> Sequence[AccuracyScore]:
        """Return the scores of accuracy data sets."""
        return [each for each in self.accuracy_scores if each.counts_for_accuracy]

    def find_inline_score(self) -> AccuracyScore | None:
        """Return the score of the performance run's own answers; None if there is none."""
        return next(
            (each for each in self.accuracy_scores if each.dataset_type == PERFORMANCE_TYPE), None
        )


ACCURACY_DECODER: Final = msgspec.json.Decoder(AccuracyResults)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsAccuracy:
    """The accuracy results of an entry or a point, and what its benchmark requires of them."""

    document_name: ClassVar[str] = "accuracy results of the Endpoints client"

    source: SourceFile
    results: AccuracyResults | None
    scale: float
    """Factor from the client's score to the row's unit."""
    required_samples: int | None
    """Answers that the round requires; None if it requires no number of them."""

    def build_fault(self, found: str, required: str, severity: Severity | None = None) -> Fault:
        """Build a Fault about the results."""
        return Fault(file=self.source.path, found=found, required=required, severity=severity)

    def list_scores(self) -> Sequence[AccuracyScore]:
        """Return the scores of accuracy data sets."""
        return self.results.list_scores() if self.results else []

    def compute_claims(self, metrics: Sequence[str]) -> Mapping[str, float]:
        """Return the named metrics in the row's unit: of several data sets the mean, by their
        samples.
        """
        return self.compute_weighted_means(metrics, lambda each: each.total_samples)

    def compute_unit_claims(self, metrics: Sequence[str]) -> Mapping[str, float]:
        """Return the named metrics in the row's unit: of several data sets the mean, by their
        samples without repeats.
        """
        return self.compute_weighted_means(
            metrics, lambda each: each.unit_samples or each.total_samples
        )

    def compute_weighted_means(
        self, metrics: Sequence[str], weigh: Callable[[AccuracyScore], int | None]
    ) -> Mapping[str, float]:
        """Return the mean of each named metric over the data sets, each with its weight."""
        sums, weights = defaultdict[str, float](float), defaultdict[str, float](float)
        for metric, score, each in self.iterate_scores(metrics):
            weight = float(max(weigh(each) or 1, 1))
            sums[metric] += score * weight
            weights[metric] += weight
        return {metric: sums[metric] / weights[metric] for metric in sums if weights[metric]}

    def iterate_scores(self, metrics: Sequence[str]) -> Iterator[tuple[str, float, AccuracyScore]]:
        """Yield metric, score in the row's unit and data set. A single score, whose
        metric the client does not name, is the row's only one.
        """
        named = {fold_metric_name(metric): metric for metric in metrics}
        if len(metrics) == 1:
            named[UNNAMED_METRIC] = metrics[0]
        for each in self.list_scores():
            for name, score in each.list_scores().items():
                metric = named.get(fold_metric_name(name))
                if metric:
                    yield metric, score * self.scale, each


def read_endpoints_accuracy(
    path: Path, scale: float, required_samples: int | None
) -> EndpointsAccuracy:
    """Read accuracy results; every problem becomes a parse error of the file."""
    source = SourceFile(path, about=About.QUALITY)
    return EndpointsAccuracy(
        source=source,
        results=read_json_document(source, ACCURACY_DECODER),
        scale=scale,
        required_samples=required_samples,
    )


def fold_metric_name(name: str) -> str:
    """Return a metric's name without underscores and case."""
    return name.replace("_", "").casefold()


def parse_score(value: object) -> float | None:
    """Return a score as a number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
