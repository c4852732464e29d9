"""Read the accuracy results of the Endpoints client, in each shape that its builds wrote.

Source: mlcommons/endpoints, accuracy_results.json; endpoints-submission-cli 1.5, accuracy: a list
of scores or a table by data set, below `accuracy_scores` or alone; metrics by name beside the
counts instead of below `score`; and scores in `results.json`, the log of requests.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import FileDocument
from compliance.kinds.endpoints.documents.result_summary import Series
from compliance.logs.source_file import (
    ParseErrorKind,
    SourceFile,
    decode_strict_json,
    read_json_document,
)
from compliance.verdict import About
from suite.files.untrusted_files import open_regular_file, read_in_pieces

SCORES_KEY: Final = "accuracy_scores"
REQUEST_LOG: Final = "results.json"
"""The log of requests, in which older builds of the client wrote the scores, too."""
PERFORMANCE_TYPE: Final = "performance"
"""`dataset_type` of the performance run's own score; its name in builds without such types."""
UNNAMED_METRIC: Final = "score"
"""Key of a score whose metric the client does not name."""
TOKENS_METRIC: Final = "TOKENS_PER_SAMPLE"
"""Mean length of the answers, which the client writes as a series beside the score."""
CHARACTERS_METRIC: Final = "GEN_LEN"
"""Characters of all answers."""
OLDER_FIELDS: Final = {"num_samples": "unit_samples", "n_repeats": "num_repeats"}
COUNT_FIELDS: Final = ("unit_samples", "num_repeats", "total_samples")
UNREAD_FIELDS: Final = (
    "status",
    "extractor",
    "ground_truth_column",
    "osl_tokenize_s",
)
MAX_LOG_BYTES: Final = 1 << 26
MAX_TEXT_DIGITS: Final = 18
PER_CENT: Final = 100.0


class ResponseCounts(msgspec.Struct, frozen=True):
    """How many answers of a data set there are."""

    issued: int | None = None
    scored: int | None = None
    empty: int | None = None
    missing: int | None = None


class AccuracyScore(msgspec.Struct, frozen=True):
    """The score of one data set."""

    dataset_name: str = ""
    key: str = ""
    """Its name in a table of data sets; empty in a list."""
    score: int | float | str | Mapping[str, Any] | None = None
    total_samples: int | None = None
    """Samples with their repeats."""
    unit_samples: int | None = None
    num_repeats: int | None = None
    complete: bool | None = None
    dataset_type: str | None = None
    breakdown: Mapping[str, Any] | None = None
    duration_s: Any = None
    conflicts: tuple[str, ...] = ()
    """Older names of fields whose values contradict those of today's."""
    response_counts: ResponseCounts | None = None
    output_sequence_lengths: Series | None = None

    @property
    def counts(self) -> ResponseCounts:
        """How many answers there are, as far as it is stated."""
        return self.response_counts or ResponseCounts()

    @property
    def lengths(self) -> Series:
        """Lengths of the answers, in tokens; without values if they are not stated."""
        return self.output_sequence_lengths or Series()

    @property
    def seconds(self) -> float | None:
        """How long it took to issue the data set and to answer it; None if that is not stated."""
        return parse_score(self.duration_s)

    def list_scores(self) -> dict[str, float]:
        """Return the scores by their metric; some of the client's scorers write numbers as text."""
        if isinstance(self.score, Mapping):
            named = self.score
        else:
            named = {UNNAMED_METRIC: self.score}
        found = {name: parse_score(value) for name, value in named.items()}
        return {name: value for name, value in found.items() if value is not None}

    def list_details(self) -> dict[str, float]:
        """Return the numbers of the score's breakdown by their names."""
        found = {name: parse_score(value) for name, value in (self.breakdown or {}).items()}
        return {name: value for name, value in found.items() if value is not None}

    def find_main_score(self) -> float | None:
        """Return the only or the unnamed score, or else the first one; None if there is none."""
        found = self.list_scores()
        return found.get(UNNAMED_METRIC, next(iter(found.values()), None))

    def is_named(self, name: str) -> bool:
        """Return whether the data set has this name, in its score or in the table."""
        return name in (self.dataset_name, self.key)


class AccuracyResults(msgspec.Struct, frozen=True):
    """`accuracy_results.json`, whatever its shape."""

    average_accuracy: int | float | None = None
    accuracy_scores: tuple[AccuracyScore, ...] = ()

    def list_scores(self) -> Sequence[AccuracyScore]:
        """Return the scores of accuracy data sets: all but those of the performance run."""
        inline = self.list_inline_scores()
        return [each for each in self.accuracy_scores if each not in inline]

    def list_inline_scores(self) -> Sequence[AccuracyScore]:
        """Return the scores of the performance run's own answers, of which there is at most one."""
        typed = [each for each in self.accuracy_scores if each.dataset_type == PERFORMANCE_TYPE]
        return typed or [
            each
            for each in self.accuracy_scores
            if each.dataset_type is None and each.is_named(PERFORMANCE_TYPE)
        ]


class RequestLog(msgspec.Struct, frozen=True):
    """`results.json`, as far as it is read."""

    accuracy_scores: msgspec.Raw = msgspec.Raw(b"null")


DOCUMENT_DECODER: Final = msgspec.json.Decoder(dict[str, Any] | list[Any])
LOG_DECODER: Final = msgspec.json.Decoder(RequestLog)
KNOWN_FIELDS: Final = frozenset({*AccuracyScore.__struct_fields__, *OLDER_FIELDS, *UNREAD_FIELDS})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsAccuracy(FileDocument):
    """The accuracy results of an entry or a point, and what its benchmark requires of them."""

    document_name: ClassVar[str] = "accuracy results of the Endpoints client"

    results: AccuracyResults | None
    scale: float
    """Factor from the client's score to the row's unit."""
    required_samples: int | None
    """Answers that the round requires; None if it requires no number of them."""

    def list_scores(self) -> Sequence[AccuracyScore]:
        """Return the scores of accuracy data sets."""
        if self.results:
            return self.results.list_scores()
        return []

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
        """Yield metric, score in the row's unit and data set, but for lengths of answers. A score
        without a name is the row's first metric, and a single one its only metric, whatever the
        client names it.

        Source: mlcommons/endpoints, evaluation/scoring.py: a scorer returns one number, that of
        ROUGE several by name.
        """
        scored = [each for each in metrics if each != TOKENS_METRIC]
        named = {fold_metric_name(metric): metric for metric in scored}
        if scored:
            named[UNNAMED_METRIC] = scored[0]
        for each in self.list_scores():
            found = {
                name: score for name, score in each.list_scores().items() if not is_length(name)
            }
            only = None
            if len(scored) == 1 == len(found):
                only = scored[0]
            for name, score in found.items():
                metric = named.get(fold_metric_name(name), only)
                if metric:
                    yield metric, score * self.scale, each

    def compute_mean_characters(self) -> float | None:
        """Return the mean length of all answers in characters, of which the scorer of texts writes
        the sum; None if it does not.
        """
        found = [
            (value, each.total_samples)
            for each in self.list_scores()
            for name, value in each.list_scores().items()
            if fold_metric_name(name) == fold_metric_name(CHARACTERS_METRIC)
        ]
        answers = sum(samples or 0 for _, samples in found)
        if answers <= 0:
            return None
        return sum(value for value, _ in found) / answers

    def compute_mean_tokens(self) -> float | None:
        """Return the mean length of all answers in tokens, or else the one that scorers name; None
        if there is neither.
        """
        scores = self.list_scores()
        answers = sum(each.lengths.count for each in scores)
        if answers:
            return sum(float(each.lengths.total or 0) for each in scores) / answers
        stated = [
            (value, max(each.total_samples or 1, 1))
            for each in scores
            for name, value in (each.list_scores() | each.list_details()).items()
            if is_length(name)
        ]
        samples = sum(weight for _, weight in stated)
        if samples:
            return sum(value * weight for value, weight in stated) / samples
        return None


def read_endpoints_accuracy(
    path: Path, scale: float, required_samples: int | None
) -> EndpointsAccuracy:
    """Read accuracy results; every problem becomes a parse error of the file."""
    source = SourceFile(path, about=About.QUALITY)
    return EndpointsAccuracy(
        source=source,
        results=read_accuracy_results(source),
        scale=scale,
        required_samples=required_samples,
    )


def read_accuracy_results(source: SourceFile) -> AccuracyResults | None:
    """Read results of any shape; None with a parse error if that fails."""
    if source.path.name == REQUEST_LOG:
        text = read_logged_scores(source.path)
        document = decode_strict_json(source, DOCUMENT_DECODER, text or b"null", None)
    else:
        document = read_json_document(source, DOCUMENT_DECODER)
    if document is None:
        return None
    if isinstance(document, dict):
        scores = document.get(SCORES_KEY, document)
    else:
        scores = document
    mean = None
    if scores is not document:
        mean = document.get("average_accuracy")
    tables = list_score_tables(scores, bare=scores is document)
    try:
        return msgspec.convert({"average_accuracy": mean, SCORES_KEY: tables}, AccuracyResults)
    except msgspec.ValidationError as error:
        source.add_parse_error(ParseErrorKind.SHAPE, str(error), "scores of data sets")
        return None


def list_score_tables(scores: Any, *, bare: bool) -> Any:
    """List the scores of a list, or of a table by data set; anything else as it is. `bare`: the
    table is the whole document, which may have other values, too.
    """
    if isinstance(scores, dict):
        return [
            translate_score(each, key)
            for key, each in scores.items()
            if isinstance(each, dict) or not bare
        ]
    if isinstance(scores, list):
        return [translate_score(each) for each in scores]
    return scores


def translate_score(score: Any, key: str = "") -> Any:
    """Translate one data set's score into today's fields: older names, counts as text, and metrics
    beside the counts in a table by data set.
    """
    if not isinstance(score, dict):
        return score
    found = {**score, "key": key}
    found["conflicts"] = [
        f"{older} {score[older]} beside {name} {score[name]}"
        for older, name in OLDER_FIELDS.items()
        if older in score and score.get(name, score[older]) != score[older]
    ]
    for older, name in OLDER_FIELDS.items():
        if older in score:
            found.setdefault(name, score[older])
    for name in COUNT_FIELDS:
        found[name] = translate_count(found.get(name))
    samples, repeats = found["unit_samples"], found["num_repeats"] or 1
    if "num_samples" in score and isinstance(samples, int) and isinstance(repeats, int):
        found["total_samples"] = found["total_samples"] or samples * repeats
    if key:
        found["dataset_name"] = score.get("dataset_name") or key
    if key and "score" not in score:
        found["score"] = {name: each for name, each in score.items() if name not in KNOWN_FIELDS}
    return found


def translate_count(value: Any) -> Any:
    """Return a count that is written as text as a number; anything else as it is."""
    is_count = isinstance(value, str) and value.isascii() and value.isdigit()
    if is_count and len(value) <= MAX_TEXT_DIGITS:
        return int(value)
    return value


def read_logged_scores(path: Path) -> bytes | None:
    """Return the scores in a log of requests as JSON; None if it has none, or is none."""
    try:
        with open_regular_file(path) as stream:
            text = read_in_pieces(stream, MAX_LOG_BYTES)
        scores = bytes(LOG_DECODER.decode(text).accuracy_scores)
    except (OSError, ValueError, RecursionError):
        return None
    if scores.strip(b" \t\r\n") not in (b"null", b"{}", b"[]"):
        return scores
    return None


def fold_metric_name(name: str) -> str:
    """Return a metric's name without underscores and case."""
    return name.replace("_", "").casefold()


def scale_fraction(score: float, least: float) -> float:
    """Return a score in the unit of its minimum: a fraction where that is in per cent becomes one,
    since scorers of some benchmarks write fractions.
    """
    if least > 1 >= score >= 0:
        return score * PER_CENT
    return score


def is_length(name: str) -> bool:
    """Return whether a metric is the mean length of answers in tokens."""
    return fold_metric_name(name) == fold_metric_name(TOKENS_METRIC)


def parse_score(value: object) -> float | None:
    """Return a score as a number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    if math.isfinite(found):
        return found
    return None
