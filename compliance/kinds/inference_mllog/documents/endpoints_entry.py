"""Read an entry of a published inference round that was measured with the Endpoints client."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from compliance.documents.base import Document
from compliance.kinds.endpoints.documents.accuracy import (
    TOKENS_METRIC,
    EndpointsAccuracy,
    read_endpoints_accuracy,
    scale_fraction,
)
from compliance.kinds.endpoints.documents.measurement import EndpointsMeasurement
from compliance.kinds.endpoints.documents.run import EndpointsRun, read_endpoints_run
from compliance.kinds.inference_mllog.documents.run import parse_scenario_folder
from compliance.kinds.inference_mllog.round import InferenceMllogModel, InferenceMllogRound
from compliance.recognition.tree_path import TreePosition
from compliance.token_counter import TokenCounter

CLOSED: Final = "closed"
ACCURACY_RESULTS: Final = "accuracy/accuracy_results.json"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsEntry(Document):
    """One scenario of a system and benchmark, measured with the Endpoints client."""

    document_name: ClassVar[str] = "an entry of MLPerf Endpoints"

    folder: Path
    scenario: str | None
    benchmark: str | None
    model: InferenceMllogModel | None
    division: str | None
    run: EndpointsRun
    accuracy: EndpointsAccuracy
    round: InferenceMllogRound

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.run.path

    @property
    def is_closed(self) -> bool:
        """Return whether the closed division's rules apply."""
        return self.division == CLOSED

    def compute_claims(self) -> Mapping[str, float]:
        """Return the metrics of the accuracy results in the row's unit: of several data sets the
        mean by their samples without repeats, as the reference of gpt-oss-120b adds them up.

        Source: mlcommons/endpoints, evaluation/accuracy_results.py.
        """
        if self.model:
            minimums = self.model.find_minimums(self.scenario)
        else:
            minimums = {}
        found = {
            metric: scale_fraction(score, minimums[metric])
            for metric, score in self.accuracy.compute_unit_claims(tuple(minimums)).items()
        }
        tokens = None
        if TOKENS_METRIC in minimums:
            tokens = self.accuracy.compute_mean_tokens()
        if tokens is None:
            return found
        return {**found, TOKENS_METRIC: tokens}


def measure_entry(entry: EndpointsEntry) -> EndpointsMeasurement:
    """Return what was measured for an entry. Only the closed division limits the tokens."""
    most_tokens = None
    if entry.model and entry.is_closed:
        most_tokens = entry.model.most_tokens
    return EndpointsMeasurement(
        run=entry.run, accuracy=entry.accuracy, most_tokens=most_tokens, concurrency_factor=1.0
    )


def read_endpoints_entry(
    folder: Path,
    summary: Path,
    place: TreePosition | None,
    round: InferenceMllogRound,
    counter: TokenCounter | None = None,
) -> EndpointsEntry:
    """Read an entry; every problem becomes a parse error of its file."""
    benchmark = round.find_benchmark(folder.parent.name)
    model, division = round.models.get(benchmark or ""), place.division if place else None
    scenario = parse_scenario_folder(folder.name)
    closed = model if division == CLOSED else None
    return EndpointsEntry(
        folder=folder,
        scenario=scenario,
        benchmark=benchmark,
        model=model,
        division=division,
        run=read_endpoints_run(folder, summary, counter=counter),
        accuracy=read_endpoints_accuracy(
            folder / ACCURACY_RESULTS,
            scale=model.endpoints_scale if model else 1.0,
            required_samples=closed.find_accuracy_samples(scenario) if closed else None,
        ),
        round=round,
    )
