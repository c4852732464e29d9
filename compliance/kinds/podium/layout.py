"""Open results of round podium-v1: run sets, inference entries and results trees."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from compliance.kinds.podium.audited import collect_replaced_rules, downgrade_audit_finding
from compliance.kinds.podium.documents import studies, unjudged_files
from compliance.kinds.podium.documents.audit import Audit, find_audit_folders, find_orphaned_audits
from compliance.kinds.podium.documents.conditions import build_serving_conditions
from compliance.kinds.podium.documents.history import read_history_file
from compliance.kinds.podium.documents.inference import InferenceEntry, LoadGenRun
from compliance.kinds.podium.documents.power import build_idle_power_before_run, build_run_power
from compliance.kinds.podium.documents.recorded_run import (
    build_recorded_serving,
    build_recorded_training,
)
from compliance.kinds.podium.documents.submission import Submission, UninstalledResult
from compliance.kinds.podium.documents.training import TrainingSet
from compliance.kinds.podium.facts import sheets
from compliance.kinds.podium.parts import OrganisationParts
from compliance.kinds.podium.reader import DocumentLibrary
from compliance.logs.source_file import ParseErrorKind as FlawKind
from compliance.logs.source_file import SourceFile
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    find_studies,
    has_loadgen_logs,
)
from compliance.recognition.tree_path import (
    TreePosition,
    is_folder,
    iterate_published_logs,
    iterate_subfolders,
    iterate_tree_organisations,
    list_training_logs,
    match_scenario_folder,
    parse_tree_position,
)
from compliance.verdict import Finding, ResultKind, Severity, Verdict
from compliance.walk import (
    JudgingAids,
    OpenPath,
    Part,
    Piece,
    ResultPart,
    WorkloadDocument,
    build_path_fault,
)
from suite import events, registry
from suite.files.layout import LEDGER_FOLDER
from suite.loadgen.scenario import Scenario
from suite.measurement.mlperf_power.session import RANGING_FOLDER
from suite.rounds import Round

MEASUREMENTS_PATH_FORM = (
    "measurements/<system>/<benchmark>/<Scenario>/<system>_podium_<Scenario>.json"
)


class PodiumLayout:
    """What results of one of podium's own rounds consist of; files shared by several documents are
    read once.
    """

    def __init__(self, round: Round, truth: Path | None = None) -> None:
        self.round = round
        self.library = DocumentLibrary(round, truth)
        self.places: Mapping[PathKind, OpenPath] = {
            PathKind.LOG: self.open_log,
            PathKind.SET: self.open_set,
            PathKind.RUN: self.open_run,
            PathKind.RUNS: self.open_runs,
            PathKind.ENTRY: self.open_entry,
            PathKind.AUDIT: self.open_audit,
            PathKind.MEASUREMENTS: self.open_measurements,
            PathKind.SYSTEM_FILE: self.open_system_file,
            PathKind.CHECKPOINT: self.open_checkpoint,
            PathKind.STUDY: self.open_study,
            PathKind.HISTORY: self.open_history,
            PathKind.BENCHMARK: self.open_system,
            PathKind.SYSTEM: self.open_system,
            PathKind.ORGANISATION: self.open_organisation,
            PathKind.TREE: self.open_tree,
        }

    def open_log(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a log as a result of its own."""
        contents = self.iterate_log(target.path, target.position, OrganisationParts())
        return [ResultPart(kind=ResultKind.LOG, path=target.path, contents=contents)]

    def open_set(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open a set, whose logs have podium's names."""
        is_published = any(iterate_published_logs(target.path))
        if is_published and not any(list_training_logs(target.path)):
            return None
        return self.iterate_set(target.path, target.position, OrganisationParts())

    def open_run(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a LoadGen run as a result of its own."""
        return [self.build_run(target.path)]

    def open_runs(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open the performance runs of an entry, each on its own."""
        found = [
            path
            for path in iterate_subfolders(target.path)
            if has_loadgen_logs(path) and path.name != RANGING_FOLDER
        ]
        if not found:
            return [
                build_path_fault(
                    target.path,
                    "no LoadGen run in the folder",
                    "run_1/ with LoadGen's logs",
                    FlawKind.MISSING,
                )
            ]
        return map(self.build_run, found)

    def open_entry(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open an entry."""
        return self.iterate_entry(target.path, target.position, OrganisationParts())

    def open_audit(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open the results that compliance tests check."""
        place = target.position
        if place is None:
            return None
        below = place.list_parts_below(target.path)[1:4]
        folder = place.organisation_folder.joinpath("results", *below)
        if place.scenario and is_folder(folder):
            return self.iterate_entry(folder, place, OrganisationParts())
        return self.iterate_organisation(place, [])

    def open_measurements(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open the entry that a measurements file is about, since it means nothing alone."""
        path, place = target.path, target.position
        if place is None:
            return None
        if place.scenario is None:
            found = "a measurements file outside a scenario's folder"
            return [build_path_fault(path, found, MEASUREMENTS_PATH_FORM)]
        below = path.parent.relative_to(place.organisation_folder / "measurements")
        folder = place.organisation_folder / "results" / below
        return self.iterate_entry(folder, place, OrganisationParts())

    def open_system_file(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a system description."""
        return self.iterate_system_file(target.path, target.position, OrganisationParts())

    def open_checkpoint(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open the record of an exported checkpoint."""
        return self.iterate_checkpoint(target.path)

    def open_study(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a study."""
        return [self.build_study(target.path)]

    def open_history(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a history of results."""
        source = SourceFile(target.path)
        history = read_history_file(source)
        return [source, history]

    def open_system(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a system or a benchmark of one, in a tree or outside."""
        if target.position is None:
            return self.iterate_loose_results(target.path, target.kind)
        return self.iterate_organisation(target.position, [])

    def open_organisation(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open the submission of an organisation."""
        if not target.position:
            return None
        return self.iterate_organisation(target.position, [])

    def open_tree(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a results folder."""
        return self.iterate_tree(target.path, [])

    def open_bundle(self, path: Path, inside: Path) -> Iterable[Piece]:
        """Open a bundle, which may be unpacked into the folder `inside`."""
        from compliance.kinds.podium.bundles import iterate_bundle

        return iterate_bundle(self, path, inside)

    def report_unknown_workload(
        self, path: Path, workload: object, parts: OrganisationParts
    ) -> Iterator[Piece]:
        """Say once per result that its workload is not installed: it cannot be judged."""
        folder = path if is_folder(path) else path.parent
        if isinstance(workload, str) and (folder, workload) not in parts.unknown_workloads:
            parts.unknown_workloads.add((folder, workload))
            yield UninstalledResult(path=path, workload=workload, round=self.round)

    def is_unknown_workload(self, workload: object) -> bool:
        """Return whether a stamped workload has no row in the round."""
        return isinstance(workload, str) and workload not in self.round.benchmarks

    def iterate_log(
        self, path: Path, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Piece]:
        """Open a log; a file without any record is judged only as a file."""
        log = self.library.read_log(path, place)
        yield log.source
        if self.is_unknown_workload(stamped := log.find_value(events.WORKLOAD)):
            yield from self.report_unknown_workload(path, stamped, parts)
        elif log.records:
            yield WorkloadDocument(log, log.workload)
        elif not any(flaw.kind is not FlawKind.FOREIGN for flaw in log.source.parse_errors):
            yield build_path_fault(
                path, "no log records in the file", "a log of :::MLLOG lines", FlawKind.RECORD
            )

    def iterate_set(
        self, folder: Path, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Piece]:
        """Open a set, then the description of its system."""
        group = self.library.read_set(folder, place)
        parts.sets.append(group)
        yield ResultPart(
            kind=ResultKind.SET,
            path=folder,
            files=len(group.logs),
            contents=self.iterate_set_documents(group, place, parts),
        )
        if place and place.system_file:
            yield from self.iterate_system_file(place.system_file, place, parts)

    def iterate_set_documents(
        self, group: TrainingSet, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Piece]:
        """Open the documents of a set: first each log alone, in which a run that did not converge
        is not yet an error, then all together, unless one of them cannot be read.
        """
        allowed = partial(self.excuse_missed_target, len(group.logs))
        for log in group.logs:
            yield Part(contents=self.iterate_log(log.path, place, parts), revise=allowed)
        is_unknown = any(
            self.is_unknown_workload(log.find_value(events.WORKLOAD)) for log in group.logs
        )
        readable: list[Path] = []
        for source, conditions in self.library.iterate_set_conditions(group):
            yield source
            if conditions and conditions.segments:
                readable.append(source.path)
            if conditions and not is_unknown:
                yield conditions
        if not is_unknown:
            yield from self.iterate_recorded_training(group, readable)
        for powered in self.library.read_run_powers(group):
            if not is_unknown:
                yield WorkloadDocument(powered, group.logs[0].workload)
        if not is_unknown and not any(log.is_unread for log in group.logs):
            yield WorkloadDocument(group, group.logs[0].workload if group.logs else None)
            system = None
            if place and place.system_file:
                system = self.library.read_system(place.system_file, place)
            yield from (sheets.build_log_sheet(log, system) for log in group.logs)

    def iterate_recorded_training(
        self, group: TrainingSet, readable: Sequence[Path]
    ) -> Iterator[Piece]:
        """Open each log of a set with the telemetry beside it, as far as it is readable."""
        for log in group.logs:
            counted_by = self.library.find_counting_ledger(log.path, log.workload)
            if recorded := build_recorded_training(log, readable, counted_by):
                yield WorkloadDocument(recorded, log.workload)

    def excuse_missed_target(self, runs: int, finding: Finding) -> Finding:
        """Downgrade the finding that one of several runs missed its target to a warning that says
        how many such runs a set may contain.
        """
        if finding.weight is not Verdict.NOT_CONVERGED:
            return finding
        rules = self.round.training
        allowed = rules.not_converged_allowed if runs >= rules.olympic_from_runs else 0
        required = (
            f"{finding.required}; a set of {runs} may have {allowed} run(s) without, counted as the"
            " slowest"
        )
        return replace(finding, severity=Severity.WARNING, required=required)

    def build_run(self, folder: Path) -> ResultPart:
        """Build the result of a LoadGen run on its own."""
        return ResultPart(
            kind=ResultKind.RUN, path=folder, contents=self.iterate_run_documents(folder)
        )

    def iterate_run_documents(self, folder: Path) -> Iterator[Piece]:
        """Open the files of a LoadGen run, and what they record."""
        run = self.library.read_run(folder)
        yield from (*run.sources, run.system_source)
        workload = run.record.system.workload if run.record else None
        if self.is_unknown_workload(workload):
            yield from self.report_unknown_workload(folder, workload, OrganisationParts())
        else:
            yield self.build_run_part(run, workload)

    def build_run_part(self, run: LoadGenRun, workload: str | None) -> Part:
        """Build what a run records as a part, which is judged alone and in its organisation."""
        return Part(contents=self.iterate_run(run, workload), once=(run.folder, workload))

    def iterate_run(self, run: LoadGenRun, workload: str | None) -> Iterator[Piece]:
        """Open a run and the telemetry recorded with it."""
        yield WorkloadDocument(run, workload)
        counted_by = self.library.find_counting_ledger(run.path, workload)
        if recorded := build_recorded_serving(run, counted_by):
            yield WorkloadDocument(recorded, workload)
        if conditions := build_serving_conditions(run):
            yield WorkloadDocument(conditions, workload)
        if powered := build_run_power(run):
            both = (powered, build_idle_power_before_run(run, powered))
            yield Part(  # both have the same readings
                contents=[WorkloadDocument(each, workload) for each in both if each],
                distinct=True,
            )
        if session := self.library.find_power_session(run):
            yield WorkloadDocument(session, workload)

    def iterate_entry(
        self, folder: Path, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Piece]:
        """Open an inference entry, then the description of its system."""
        entry = self.library.read_entry(folder, place)
        parts.entries.append(entry)
        yield ResultPart(
            kind=ResultKind.ENTRY,
            path=folder,
            files=len(entry.runs),
            contents=self.iterate_entry_documents(entry, place, parts),
        )
        if place and place.system_file:
            yield from self.iterate_system_file(place.system_file, place, parts)

    def iterate_entry_documents(
        self, entry: InferenceEntry, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Piece]:
        """Open each run of an entry, then all together, then its compliance tests."""
        is_unknown = self.is_unknown_workload(entry.workload)
        for run in entry.runs:
            yield from run.sources
            if not is_unknown:
                yield self.build_run_part(run, entry.workload)
        yield from (run.system_source for run in entry.runs[:1])
        yield from self.library.sources.get(entry.folder, ())
        if is_unknown:
            yield from self.report_unknown_workload(entry.folder, entry.workload, parts)
            return
        yield WorkloadDocument(entry, entry.workload)
        yield from sheets.iterate_entry_sheets(entry)
        if not place:
            return
        for path in find_audit_folders(place):
            audit = self.library.read_audit(path, entry.scenario, entry)
            parts.audits.append(audit)
            yield Part(contents=self.iterate_audit(audit), once=(path, entry.workload))

    def iterate_audit(self, audit: Audit) -> Iterator[Piece]:
        """Open a compliance test: its runs like any other, except for what the test changes, then
        its outcome.
        """
        yield from audit.sources
        workload = audit.system.workload if audit.system else None
        for run in audit.runs:
            yield from run.sources
            counted_by = self.library.find_counting_ledger(run.path, workload)
            recorded = build_recorded_serving(run, counted_by)
            yield Part(
                contents=[WorkloadDocument(each, workload) for each in (run, recorded) if each],
                revise=partial(revise_audit_finding, audit, list_replaced_rules(audit, run)),
            )
        yield WorkloadDocument(audit, workload)

    def iterate_checkpoint(self, folder: Path) -> Iterator[Piece]:
        """Open the record of an exported checkpoint, with the training logs of its tree."""
        for home in iterate_tree_organisations(folder.parents[2]):
            for system in iterate_subfolders(home / "results"):
                for benchmark in iterate_subfolders(system):
                    self.library.remember_set_logs(
                        benchmark,
                        parse_tree_position(home, ("results", system.name, benchmark.name)),
                    )
        found = self.library.read_checkpoint(folder)
        yield from self.library.sources[folder]
        if found and not self.is_unknown_workload(folder.parent.name):
            yield found
            yield from sheets.iterate_checkpoint_sheets(found)

    def build_study(self, folder: Path) -> ResultPart:
        """Build the result of a study."""
        return ResultPart(
            kind=ResultKind.STUDY, path=folder, contents=self.iterate_study_documents(folder)
        )

    def iterate_study_documents(self, folder: Path) -> Iterator[Piece]:
        """Open the files of a study, then its table."""
        files, documents = studies.read_study_documents(folder, self.round)
        yield from files
        yield from documents

    def iterate_system_file(
        self, path: Path, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Piece]:
        """Open a system description."""
        system = self.library.read_system(path, place)
        yield from self.library.sources.get(path, ())
        if system and all(system.path != other.path for other in parts.systems):
            parts.systems.append(system)
            yield system

    def iterate_organisation(
        self,
        place: TreePosition,
        submissions: list[Submission],
        misnamed: Iterable[Path] = (),
        sealed: bool = False,
        *,
        is_reserved: bool = False,
    ) -> Iterator[Piece]:
        """Open an organisation's submission, or one of its systems or benchmarks, depending on how
        specific `place` is.
        """
        parts = OrganisationParts(unexpected_paths=list(misnamed))
        if place.system is None:
            parts.unjudged_files.extend(
                unjudged_files.find_misplaced_files(place.organisation_folder)
            )
        for system in iterate_subfolders(place.organisation_folder / "results"):
            for benchmark in iterate_subfolders(system):
                if place.system in (None, system.name) and place.benchmark in (
                    None,
                    benchmark.name,
                ):
                    yield from self.iterate_benchmark(
                        parse_tree_position(
                            place.organisation_folder, ("results", system.name, benchmark.name)
                        ),
                        benchmark,
                        parts,
                    )
        if place.system is None:
            for path in find_orphaned_audits(place.organisation_folder, parts.entries):
                parts.audits.append(
                    self.library.read_audit(path, match_scenario_folder(path.parent.name), None)
                )
                yield from self.iterate_audit(parts.audits[-1])
        submissions.append(
            parts.build_submission(
                place.organisation_folder,
                self.round,
                tuple(submissions),
                is_reserved=is_reserved,
            )
        )
        yield submissions[-1]
        yield from sheets.iterate_scenario_sheets(parts.entries)
        if place.system is None:
            yield from self.iterate_ledgers(submissions[-1], sealed)

    def iterate_ledgers(self, submission: Submission, sealed: bool) -> Iterator[Piece]:
        """Open the ledgers of an organisation; results that predate ledgers have none."""
        for path in sorted((submission.organisation_folder / LEDGER_FOLDER).glob("*.jsonl")):
            ledger = self.library.read_ledger(path, submission, sealed)
            yield from [ledger.source]
            yield ledger
            yield from sheets.iterate_ledger_sheets(ledger)

    def iterate_benchmark(
        self, place: TreePosition, folder: Path, parts: OrganisationParts
    ) -> Iterator[Piece]:
        """Open a benchmark's folder: its run set and scenarios."""
        known = {
            name
            for row in self.round.benchmarks.values()
            for name in (row.training_name, row.inference_name)
        }
        scenarios = [
            path for path in iterate_subfolders(folder) if match_scenario_folder(path.name)
        ]
        if any(list_training_logs(folder)):
            yield from self.iterate_set(folder, place, parts)
        elif not scenarios:
            parts.unexpected_paths.append(folder)
        parts.unexpected_paths.extend(
            path
            for path in iterate_subfolders(folder)
            if path.name not in [scenario.folder for scenario in Scenario]
        )
        for path in scenarios:
            yield from self.iterate_entry(
                path, replace(place, scenario=match_scenario_folder(path.name)), parts
            )
        if folder.name not in known and not any(
            place.is_relative_to(folder) for place, _ in parts.unknown_workloads
        ):
            parts.unexpected_paths.append(folder)

    def iterate_loose_results(self, folder: Path, kind: PathKind) -> Iterator[Piece]:
        """Open the sets and entries in a benchmark's or system's folder outside a submission
        tree.
        """
        parts = OrganisationParts()
        benchmarks = [folder]
        if kind is not PathKind.BENCHMARK:
            benchmarks = list(iterate_subfolders(folder))
        for benchmark in benchmarks:
            if any(list_training_logs(benchmark)):
                yield from self.iterate_set(benchmark, None, parts)
            for path in (
                path for path in iterate_subfolders(benchmark) if match_scenario_folder(path.name)
            ):
                yield from self.iterate_entry(path, None, parts)

    def iterate_tree(
        self, path: Path, submissions: list[Submission], sealed: bool = False
    ) -> Iterator[Piece]:
        """Open a results folder: every organisation, the checkpoint records, and the studies."""
        found, studied = list(iterate_tree_organisations(path)), list(find_studies(path))
        if not found and not studied:
            yield build_path_fault(path, "no organisation folder", "<division>/<org>/results/...")
        misnamed = list(unjudged_files.find_misplaced_folders(path, found))
        empty = [home for home in found if unjudged_files.has_no_file(home)]
        for home in found:
            yield from self.iterate_organisation(
                TreePosition(organisation_folder=home),
                submissions,
                misnamed if home is found[0] else (),
                sealed,
                is_reserved=home in empty and empty != found,
            )
        for folder in self.library.iterate_checkpoint_folders(path):
            yield from self.iterate_checkpoint(folder)
        for folder in studied:
            yield self.build_study(folder)


def list_replaced_rules(audit: Audit, run: LoadGenRun) -> frozenset[str]:
    """Return the rules that do not apply to a run of a compliance test."""
    changed = audit.test_settings if run in audit.test_runs else audit.reference_settings
    return collect_replaced_rules(changed or {})


def revise_audit_finding(
    audit: Audit, replaced: frozenset[str], finding: Finding
) -> Finding | None:
    """Leave out findings of rules that the test replaces; downgrade what a failed test shows."""
    if finding.rule in replaced:
        return None
    return downgrade_audit_finding(audit, finding)


def build_podium_layout(round_name: str, aids: JudgingAids) -> PodiumLayout:
    """Build the layout of a round of this kind."""
    return PodiumLayout(registry.load_round(round_name), aids.truth)
