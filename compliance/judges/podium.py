"""Judges results of round podium-v1: training sets, inference entries, results trees and
bundles.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from compliance.documents import unjudged_files
from compliance.documents.podium import studies
from compliance.documents.podium.audit import Audit, audits_of, orphans
from compliance.documents.podium.conditions import of_served
from compliance.documents.podium.inference import LoadGenRun
from compliance.documents.podium.power import of_idle_before, of_run
from compliance.documents.podium.submission import Stranger, Submission
from compliance.documents.reader import Library
from compliance.judges.audited import changed_by
from compliance.judges.bundles import judge_bundle
from compliance.judges.empty_path import nothing_in
from compliance.judges.parts import Parts
from compliance.logs.source_file import Kind as FlawKind
from compliance.logs.source_file import SourceFile
from compliance.recognition.path_kind import Kind, Target, is_run, studies_in
from compliance.recognition.tree_path import (
    Place,
    filed_logs,
    folders,
    homes,
    is_folder,
    place_in,
    scenario_of,
    training_logs,
)
from compliance.rules import judge
from compliance.verdict import Finding, Severity, Verdict
from suite import events
from suite.files.layout import LEDGER
from suite.loadgen.scenario import Scenario
from suite.measurement.mlperf_power.session import RANGING
from suite.rounds import Round

MEASURED = "measurements/<system>/<benchmark>/<Scenario>/<system>_podium_<Scenario>.json"


class PodiumJudge:
    """Judges paths by one podium round; files shared by several documents are read once."""

    def __init__(self, round: Round, truth: Path | None = None) -> None:
        self.round = round
        self.library = Library(round, truth)
        self.told: dict[tuple[Path, str | None], tuple[Finding, ...]] = {}
        """Cache: LoadGen runs and compliance tests -> findings; a result is judged alone and as a
        part of its organisation.
        """

    def findings(self, target: Target, inside: Path) -> Iterator[Finding]:
        """Apply the rules for this kind of path; a bundle is unpacked into the folder `inside`."""
        path, place = target.path, target.place
        match target.kind:
            case Kind.LOG:
                yield from self.log(path, place, Parts())
            case Kind.SET if any(training_logs(path)) or not any(filed_logs(path)):
                yield from self.set(path, place, Parts())
            case Kind.RUN:
                yield from self.run(path)
            case Kind.RUNS:
                yield from self.runs(path)
            case Kind.ENTRY:
                yield from self.entry(path, place, Parts())
            case Kind.AUDIT if place:
                yield from self.audit_folder(path, place)
            case Kind.MEASUREMENTS if place:
                yield from self.measurements(path, place)
            case Kind.SYSTEM_FILE:
                yield from self.system_file(path, place, Parts())
            case Kind.CHECKPOINT:
                yield from self.checkpoint(path)
            case Kind.STUDY:
                yield from self.study(path)
            case Kind.BENCHMARK | Kind.SYSTEM | Kind.ORGANISATION if place:
                yield from self.organisation(place, [])
            case Kind.BENCHMARK | Kind.SYSTEM:
                yield from self.loose(path, target.kind)
            case Kind.TREE:
                yield from self.tree(path, [])
            case Kind.BUNDLE:
                yield from judge_bundle(self, path, inside)
            case _:
                yield from self.unknown(target)

    def apply(self, document: object, workload: str | None = None) -> Iterator[Finding]:
        """Apply all of the round's rules to a document."""
        yield from judge(document, self.round.name, workload)

    def files(self, sources: Iterable[SourceFile]) -> Iterator[Finding]:
        """Apply the file rules."""
        for source in sources:
            yield from self.apply(source)

    def unknown(self, target: Target) -> Iterator[Finding]:
        """Yield the finding that there is nothing to judge."""
        found, required = nothing_in(target)
        yield from self.flaw(target.path, found, required, FlawKind.UNREADABLE)

    def flaw(self, path: Path, found: str, required: str, kind: FlawKind) -> Iterator[Finding]:
        """Yield a finding about a path."""
        source = SourceFile(path)
        source.add(kind, found, required)
        yield from self.apply(source)

    def stranger(self, path: Path, workload: object, parts: Parts) -> Iterator[Finding]:
        """Yield one finding per workload that is not installed: its results cannot be judged."""
        if isinstance(workload, str) and workload not in parts.strangers:
            parts.strangers.add(workload)
            yield from self.apply(Stranger(path=path, workload=workload, round=self.round))

    def is_stranger(self, workload: object) -> bool:
        """Return whether a stamped workload has no row in the round."""
        return isinstance(workload, str) and workload not in self.round.benchmarks

    def log(self, path: Path, place: Place | None, parts: Parts) -> Iterator[Finding]:
        """Judge a log; a file without any record is judged only as a file."""
        log = self.library.log(path, place)
        yield from self.apply(log.source)
        if self.is_stranger(stamped := log.value(events.WORKLOAD)):
            yield from self.stranger(path, stamped, parts)
        elif log.records:
            yield from self.apply(log, log.workload)
        elif not any(flaw.kind is not FlawKind.FOREIGN for flaw in log.source.flaws):
            yield from self.flaw(
                path, "no log records in the file", "a log of :::MLLOG lines", FlawKind.RECORD
            )

    def set(self, folder: Path, place: Place | None, parts: Parts) -> Iterator[Finding]:
        """Judge a set: each log alone, where a run that did not converge is not yet an error, then
        all together.
        """
        group = self.library.set(folder, place)
        parts.sets.append(group)
        for log in group.logs:
            for finding in self.log(log.path, place, parts):
                yield (
                    self.missed(finding, len(group.logs))
                    if finding.weight is Verdict.NOT_CONVERGED
                    else finding
                )
        stranger = any(self.is_stranger(log.value(events.WORKLOAD)) for log in group.logs)
        for source, conditions in self.library.conditions(folder):
            yield from self.files([source])
            yield from self.apply(conditions) if conditions and not stranger else ()
        for powered in self.library.powered(group):
            yield from () if stranger else self.apply(powered, group.logs[0].workload)
        yield from (
            () if stranger else self.apply(group, group.logs[0].workload if group.logs else None)
        )
        if place and place.system_file:
            yield from self.system_file(place.system_file, place, parts)

    def missed(self, finding: Finding, runs: int) -> Finding:
        """Downgrade the finding that a run missed its target to a warning that says how many such
        runs a set may contain.
        """
        rules = self.round.training
        allowed = rules.not_converged_allowed if runs >= rules.olympic_from_runs else 0
        told = (
            f"{finding.required}; a set of {runs} may have {allowed} run(s) without, counted as the"
            " slowest"
        )
        return replace(finding, severity=Severity.WARNING, required=told)

    def runs(self, folder: Path) -> Iterator[Finding]:
        """Judge the performance runs of an entry, each on its own."""
        found = [path for path in folders(folder) if is_run(path) and path.name != RANGING]
        if not found:
            yield from self.flaw(
                folder,
                "no LoadGen run in the folder",
                "run_1/ with LoadGen's logs",
                FlawKind.MISSING,
            )
        for path in found:
            yield from self.run(path)

    def run(self, folder: Path) -> Iterator[Finding]:
        """Judge a LoadGen run on its own."""
        run = self.library.run(folder)
        yield from self.files(run.sources)
        workload = run.record.workload if run.record else None
        yield from (
            self.stranger(folder, workload, Parts())
            if self.is_stranger(workload)
            else self.once(folder, workload, self.whole_run(run, workload))
        )

    def once(
        self, folder: Path, workload: str | None, found: Iterable[Finding]
    ) -> Iterator[Finding]:
        """Yield the findings about a folder, which are looked for once."""
        if (folder, workload) not in self.told:
            self.told[folder, workload] = tuple(found)
        yield from self.told[folder, workload]

    def whole_run(self, run: LoadGenRun, workload: str | None) -> Iterator[Finding]:
        """Apply the rules to a run and to the telemetry recorded with it."""
        yield from self.apply(run, workload)
        if conditions := of_served(run):
            yield from self.apply(conditions, workload)
        if powered := of_run(run):
            both = filter(None, (powered, of_idle_before(run, powered)))
            yield from dict.fromkeys(
                finding for each in both for finding in self.apply(each, workload)
            )  # both have the same readings
        if session := self.library.session(run):
            yield from self.apply(session, workload)

    def entry(self, folder: Path, place: Place | None, parts: Parts) -> Iterator[Finding]:
        """Judge an inference entry: each run, then all together."""
        entry = self.library.entry(folder, place)
        parts.entries.append(entry)
        stranger = self.is_stranger(entry.workload)
        for run in entry.runs:
            yield from self.files(run.sources)
            yield from (
                ()
                if stranger
                else self.once(run.folder, entry.workload, self.whole_run(run, entry.workload))
            )
        yield from self.files(self.library.sources.get(folder, ()))
        yield from (
            self.stranger(folder, entry.workload, parts)
            if stranger
            else self.apply(entry, entry.workload)
        )
        for path in audits_of(place) if place and not stranger else ():
            parts.audits.append(self.library.audit(path, entry.scenario, entry))
            yield from self.once(path, entry.workload, self.audit(parts.audits[-1]))
        if place and place.system_file:
            yield from self.system_file(place.system_file, place, parts)

    def audit(self, audit: Audit) -> Iterator[Finding]:
        """Judge a compliance test: its runs like any other, but for what the test changes, then
        what they come to.
        """
        yield from self.files(audit.sources)
        workload = audit.record.workload if audit.record else None
        for run in audit.runs:
            yield from self.files(run.sources)
            changed = (
                changed_by(audit.record.settings if run in audit.found else audit.record.beside)
                if audit.record
                else frozenset()
            )
            yield from (
                finding for finding in self.apply(run, workload) if finding.rule not in changed
            )
        yield from self.apply(audit, workload)

    def audit_folder(self, path: Path, place: Place) -> Iterator[Finding]:
        """Judge compliance tests by judging what they are about."""
        folder = place.home.joinpath("results", *place.below(path)[1:4])
        if place.scenario and is_folder(folder):
            yield from self.entry(folder, place, Parts())
        else:
            yield from self.organisation(place, [])

    def measurements(self, path: Path, place: Place) -> Iterator[Finding]:
        """Judge a measurements file by judging its entry, since it means nothing alone."""
        folder = place.home / "results" / path.parent.relative_to(place.home / "measurements")
        if place.scenario is None:
            yield from self.flaw(
                path,
                "a measurements file outside a scenario's folder",
                MEASURED,
                FlawKind.UNREADABLE,
            )
        else:
            yield from self.entry(folder, place, Parts())

    def checkpoint(self, folder: Path) -> Iterator[Finding]:
        """Judge the record of an exported checkpoint, with the training logs of its tree."""
        for home in homes(folder.parents[2]):
            for system in folders(home / "results"):
                for benchmark in folders(system):
                    self.library.set(
                        benchmark, place_in(home, ("results", system.name, benchmark.name))
                    )
        found = self.library.checkpoint(folder)
        yield from self.files(self.library.sources[folder])
        yield from self.apply(found) if found and not self.is_stranger(folder.parent.name) else ()

    def study(self, folder: Path) -> Iterator[Finding]:
        """Judge a study: its files, then the table."""
        files, documents = studies.read(folder, self.round)
        yield from self.files(files)
        for document in documents:
            yield from self.apply(document)

    def system_file(self, path: Path, place: Place | None, parts: Parts) -> Iterator[Finding]:
        """Judge a system description."""
        system = self.library.system(path, place)
        yield from self.files(self.library.sources.get(path, ()))
        if system and all(system.path != other.path for other in parts.systems):
            parts.systems.append(system)
            yield from self.apply(system)

    def organisation(
        self,
        place: Place,
        submissions: list[Submission],
        misnamed: Iterable[Path] = (),
        sealed: bool = False,
    ) -> Iterator[Finding]:
        """Judge an organisation's submission, or one of its systems or benchmarks, depending on how
        specific `place` is.
        """
        parts = Parts(strays=list(misnamed))
        parts.loose.extend(unjudged_files.in_home(place.home) if place.system is None else ())
        for system in folders(place.home / "results"):
            for benchmark in folders(system):
                if place.system in (None, system.name) and place.benchmark in (
                    None,
                    benchmark.name,
                ):
                    yield from self.benchmark(
                        place_in(place.home, ("results", system.name, benchmark.name)),
                        benchmark,
                        parts,
                    )
        for path in orphans(place.home, parts.entries) if place.system is None else ():
            parts.audits.append(self.library.audit(path, scenario_of(path.parent.name), None))
            yield from self.audit(parts.audits[-1])
        submissions.append(parts.submission(place.home, self.round, tuple(submissions)))
        yield from self.apply(submissions[-1])
        yield from self.ledgers(submissions[-1], sealed) if place.system is None else ()

    def ledgers(self, submission: Submission, sealed: bool) -> Iterator[Finding]:
        """Judge the ledgers of an organisation; results older than ledgers have none."""
        for path in sorted((submission.home / LEDGER).glob("*.jsonl")):
            ledger = self.library.ledger(path, submission, sealed)
            yield from self.files([ledger.source])
            yield from self.apply(ledger)

    def benchmark(self, place: Place, folder: Path, parts: Parts) -> Iterator[Finding]:
        """Judge a benchmark's folder: its training set and scenarios."""
        before = len(parts.strangers)
        known = {
            name
            for row in self.round.benchmarks.values()
            for name in (row.training_name, row.inference_name)
        }
        scenarios = [path for path in folders(folder) if scenario_of(path.name)]
        if any(training_logs(folder)):
            yield from self.set(folder, place, parts)
        elif not scenarios:
            parts.strays.append(folder)
        parts.strays.extend(
            path
            for path in folders(folder)
            if path.name not in [scenario.folder for scenario in Scenario]
        )
        for path in scenarios:
            yield from self.entry(path, replace(place, scenario=scenario_of(path.name)), parts)
        if folder.name not in known and len(parts.strangers) == before:
            parts.strays.append(folder)

    def loose(self, folder: Path, kind: Kind) -> Iterator[Finding]:
        """Judge the sets and entries in a benchmark's or system's folder that lies outside a
        submission tree.
        """
        parts = Parts()
        for benchmark in [folder] if kind is Kind.BENCHMARK else folders(folder):
            if any(training_logs(benchmark)):
                yield from self.set(benchmark, None, parts)
            for path in (path for path in folders(benchmark) if scenario_of(path.name)):
                yield from self.entry(path, None, parts)

    def tree(
        self, path: Path, submissions: list[Submission], sealed: bool = False
    ) -> Iterator[Finding]:
        """Judge a results folder: every organisation, the checkpoint records, and the studies."""
        found, studied = list(homes(path)), list(studies_in(path))
        if not found and not studied:
            yield from self.flaw(
                path, "no organisation folder", "<division>/<org>/results/...", FlawKind.UNREADABLE
            )
        misnamed = list(unjudged_files.beside(path, found))
        for home in found:
            yield from self.organisation(
                Place(home=home), submissions, misnamed if home is found[0] else (), sealed
            )
        for folder in self.library.checkpoints(path):
            yield from self.checkpoint(folder)
        for folder in studied:
            yield from self.study(folder)
