"""Read a run folder of the Endpoints client: summary, configuration, snapshot and events."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from compliance.documents.base import Document
from compliance.kinds.endpoints.documents.events import EventCount, count_events, find_events_file
from compliance.kinds.endpoints.documents.report_text import StatedFigure, read_report_text
from compliance.kinds.endpoints.documents.result_summary import (
    FinalSnapshot,
    LoadPattern,
    ResultSummary,
    RunConfig,
    read_final_snapshot,
    read_result_summary,
)
from compliance.kinds.endpoints.documents.sample_map import SampleMap, read_sample_map
from compliance.kinds.endpoints.documents.settings_table import SettingsTable, read_settings_table
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.token_counter import TokenCounter
from compliance.verdict import About, Severity

AGENTIC_PATTERN: Final = "agentic_inference"

CONFIG_FILE: Final = "config.yaml"
CONFIG_FILES: Final = (CONFIG_FILE, f"accuracy/{CONFIG_FILE}")
"""Where the configuration of a run may be; some submissions have it beside the accuracy run only.
"""
SNAPSHOT_FILE: Final = "metrics/final_snapshot.json"
SAMPLE_MAP_FILE: Final = "sample_idx_map.json"
REPORT_FILE: Final = "report.txt"
EVIDENCE_NAMES: Final = ("summary", "snapshot", "events", "tokenizer")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsRun(Document):
    """One run of the client, with as much evidence as was submitted."""

    document_name: ClassVar[str] = "a run of the Endpoints client"

    folder: Path
    summary_source: SourceFile
    summary: ResultSummary | None
    config_source: SourceFile | None
    config: SettingsTable | None
    snapshot_source: SourceFile | None
    snapshot: FinalSnapshot | None
    events: EventCount | None
    map_source: SourceFile | None
    samples: SampleMap
    report_source: SourceFile | None
    report: Sequence[StatedFigure]
    """What `report.txt` says; empty without it."""
    tolerates_failures: bool
    """The round's rules do not say how many requests may fail."""

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.summary_source.path

    @property
    def sources(self) -> list[SourceFile]:
        """Return the files that were read."""
        found = [self.summary_source, self.config_source, self.snapshot_source, self.map_source]
        found += [self.report_source]
        events = []
        if self.events:
            events.append(self.events.source)
        return [*(each for each in found if each), *events]

    @property
    def stated_config(self) -> RunConfig:
        """Return the settings that the summary states; older builds of the client state none there,
        and then those of config.yaml.
        """
        if self.summary is not None and self.summary.run_config != RunConfig():
            return self.summary.run_config
        if self.config is None:
            return RunConfig()
        return parse_run_config(self.config)

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return what the run's figures can be checked against."""
        recounted = None
        if self.events and not self.events.truncated:
            recounted = self.events
        tokens = recounted.tokens if recounted else None
        held = (self.summary, self.snapshot, recounted, tokens)
        return tuple(
            name for name, each in zip(EVIDENCE_NAMES, held, strict=True) if each is not None
        )


def read_endpoints_run(
    folder: Path,
    summary: Path,
    *,
    tolerates_failures: bool = False,
    counter: TokenCounter | None = None,
) -> EndpointsRun:
    """Read a run folder; every problem becomes a parse error of its file. `counter` counts tokens
    as the run's tokenizer does.
    """
    summary_source = SourceFile(summary, about=About.SCORE)
    config_source = open_optional_source(folder, find_config_file(folder))
    snapshot_source = open_optional_source(folder, SNAPSHOT_FILE)
    map_source = open_optional_source(folder, SAMPLE_MAP_FILE)
    report_source = open_optional_source(folder, REPORT_FILE)
    events = find_events_file(folder)
    return EndpointsRun(
        folder=folder,
        summary_source=summary_source,
        summary=read_result_summary(summary_source),
        config_source=config_source,
        config=read_settings_table(config_source) if config_source else None,
        snapshot_source=snapshot_source,
        snapshot=read_final_snapshot(snapshot_source) if snapshot_source else None,
        events=read_events(folder, events, counter) if events else None,
        map_source=map_source,
        samples=read_sample_map(map_source) if map_source else SampleMap(),
        report_source=report_source,
        report=read_report_text(report_source) if report_source else (),
        tolerates_failures=tolerates_failures,
    )


def parse_run_config(config: SettingsTable) -> RunConfig:
    """Read what a summary states of its settings from the configuration of the run. A value of the
    wrong type counts as missing.
    """
    runtime, pattern = ("settings", "runtime"), ("settings", "load_pattern")
    kind = config.find_value(*pattern, "type")
    return RunConfig(
        load_pattern=LoadPattern(
            type=kind if isinstance(kind, str) else None,
            target_qps=config.find_number(*pattern, "target_qps"),
            target_concurrency=config.find_count(*pattern, "target_concurrency"),
        ),
        scheduler_random_seed=config.find_count(*runtime, "scheduler_random_seed"),
        dataloader_random_seed=config.find_count(*runtime, "dataloader_random_seed"),
    )


def find_config_file(folder: Path) -> str:
    """Return the name of a run's configuration: in its folder, or beside its accuracy run."""
    for name in CONFIG_FILES:
        if os.path.lexists(folder / name):
            return name
    return CONFIG_FILE


def open_optional_source(folder: Path, name: str) -> SourceFile | None:
    """Return a file that a run may lack; None if it does."""
    path = folder / name
    if not os.path.lexists(path):
        return None
    source = SourceFile(path, about=About.SCORE)
    report_foreign_file(folder, source)
    return source


def read_events(folder: Path, path: Path, counter: TokenCounter | None) -> EventCount:
    """Recount a run's events; a line that was cut at the end is an error, since events were
    lost.
    """
    source = SourceFile(path, about=About.SCORE, leniency={ParseErrorKind.CUT: Severity.ERROR})
    report_foreign_file(folder, source)
    return count_events(path, source, counter)


def report_foreign_file(folder: Path, source: SourceFile) -> None:
    """Record a link that leads out of the run's folder: the file may be another run's."""
    target = Path(os.path.realpath(source.path))
    if not target.is_relative_to(os.path.realpath(folder)):
        source.add_parse_error(
            ParseErrorKind.UNREADABLE, "a link out of the run's folder", "the run's own file"
        )
