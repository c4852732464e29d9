"""Judge results of round podium-v1: training sets, inference entries and results trees."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from compliance.documents import unjudged_files
from compliance.documents.podium import studies
from compliance.documents.podium.audit import Audit, find_audit_folders, find_orphaned_audits
from compliance.documents.podium.conditions import build_serving_conditions
from compliance.documents.podium.inference import InferenceEntry, LoadGenRun
from compliance.documents.podium.power import build_idle_power_before_run, build_run_power
from compliance.documents.podium.submission import Submission, UninstalledResult
from compliance.documents.podium.training import TrainingSet
from compliance.documents.reader import DocumentLibrary
from compliance.judges.audited import collect_replaced_rules
from compliance.judges.empty_path import describe_empty_target
from compliance.judges.parts import OrganisationParts
from compliance.judges.recorder import ResultRecorder
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
    list_published_logs,
    list_subfolders,
    list_training_logs,
    list_tree_organisations,
    match_scenario_folder,
    parse_tree_position,
)
from compliance.rules import judge_document
from compliance.verdict import Finding, ResultKind, Severity, Verdict
from suite import events
from suite.files.layout import LEDGER_FOLDER
from suite.loadgen.scenario import Scenario
from suite.measurement.mlperf_power.session import RANGING_FOLDER
from suite.rounds import Round

MEASUREMENTS_PATH_FORM = (
    "measurements/<system>/<benchmark>/<Scenario>/<system>_podium_<Scenario>.json"
)


class PodiumJudge:
    """Judges paths by one podium round; files shared by several documents are read once."""

    def __init__(self, round: Round, truth: Path | None = None) -> None:
        self.round = round
        self.library = DocumentLibrary(round, truth)
        self.recorder = ResultRecorder()
        self.cached_findings: dict[tuple[Path, str | None], tuple[Finding, ...]] = {}
        """Cache: LoadGen runs and compliance tests -> findings; a result is judged alone and as
        part of its organisation.
        """

    def judge_target(self, target: RecognisedPath) -> Iterator[Finding]:
        """Apply the rules for this kind of path; a bundle has `judge_bundle`."""
        path, place = target.path, target.position
        match target.kind:
            case PathKind.LOG:
                yield from self.recorder.record_result(
                    ResultKind.LOG, path, 0, self.judge_log(path, place, OrganisationParts())
                )
            case PathKind.SET if any(list_training_logs(path)) or not any(
                list_published_logs(path)
            ):
                yield from self.judge_set(path, place, OrganisationParts())
            case PathKind.RUN:
                yield from self.judge_run_folder(path)
            case PathKind.RUNS:
                yield from self.judge_performance_runs(path)
            case PathKind.ENTRY:
                yield from self.judge_entry_folder(path, place, OrganisationParts())
            case PathKind.AUDIT if place:
                yield from self.judge_audit_folder(path, place)
            case PathKind.MEASUREMENTS if place:
                yield from self.judge_measurements(path, place)
            case PathKind.SYSTEM_FILE:
                yield from self.judge_system_file(path, place, OrganisationParts())
            case PathKind.CHECKPOINT:
                yield from self.judge_checkpoint(path)
            case PathKind.STUDY:
                yield from self.judge_study(path)
            case PathKind.BENCHMARK | PathKind.SYSTEM | PathKind.ORGANISATION if place:
                yield from self.judge_organisation(place, [])
            case PathKind.BENCHMARK | PathKind.SYSTEM:
                yield from self.judge_loose_results(path, target.kind)
            case PathKind.TREE:
                yield from self.judge_tree(path, [])
            case _:
                yield from self.report_unrecognised_path(target)

    def apply_rules(self, document: object, workload: str | None = None) -> Iterator[Finding]:
        """Apply all of the round's rules to a document."""
        yield from judge_document(document, self.round.name, workload)

    def judge_files(self, sources: Iterable[SourceFile]) -> Iterator[Finding]:
        """Apply the file rules."""
        for source in sources:
            yield from self.apply_rules(source)

    def report_unrecognised_path(self, target: RecognisedPath) -> Iterator[Finding]:
        """Yield the finding that there is nothing to judge."""
        found, required = describe_empty_target(target)
        yield from self.report_path_fault(target.path, found, required, FlawKind.UNREADABLE)

    def report_path_fault(
        self, path: Path, found: str, required: str, kind: FlawKind
    ) -> Iterator[Finding]:
        """Yield a finding about a path."""
        source = SourceFile(path)
        source.add_parse_error(kind, found, required)
        yield from self.apply_rules(source)

    def report_unknown_workload(
        self, path: Path, workload: object, parts: OrganisationParts
    ) -> Iterator[Finding]:
        """Yield one finding per workload that is not installed: its results cannot be judged."""
        if isinstance(workload, str) and workload not in parts.unknown_workloads:
            parts.unknown_workloads.add(workload)
            yield from self.apply_rules(
                UninstalledResult(path=path, workload=workload, round=self.round)
            )

    def is_unknown_workload(self, workload: object) -> bool:
        """Return whether a stamped workload has no row in the round."""
        return isinstance(workload, str) and workload not in self.round.benchmarks

    def judge_log(
        self, path: Path, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Finding]:
        """Judge a log; a file without any record is judged only as a file."""
        log = self.library.read_log(path, place)
        yield from self.apply_rules(log.source)
        if self.is_unknown_workload(stamped := log.find_value(events.WORKLOAD)):
            yield from self.report_unknown_workload(path, stamped, parts)
        elif log.records:
            yield from self.apply_rules(log, log.workload)
        elif not any(flaw.kind is not FlawKind.FOREIGN for flaw in log.source.parse_errors):
            yield from self.report_path_fault(
                path, "no log records in the file", "a log of :::MLLOG lines", FlawKind.RECORD
            )

    def judge_set(
        self, folder: Path, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Finding]:
        """Judge a set as one result, then the description of its system."""
        group = self.library.read_set(folder, place)
        parts.sets.append(group)
        yield from self.recorder.record_result(
            ResultKind.SET, folder, len(group.logs), self.judge_set_documents(group, place, parts)
        )
        if place and place.system_file:
            yield from self.judge_system_file(place.system_file, place, parts)

    def judge_set_documents(
        self, group: TrainingSet, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Finding]:
        """Judge the documents of a set: first each log alone, in which a run that did not converge
        is not yet an error, then all together, unless one of them cannot be read.
        """
        for log in group.logs:
            for finding in self.judge_log(log.path, place, parts):
                yield (
                    self.convert_missed_to_warning(finding, len(group.logs))
                    if finding.weight is Verdict.NOT_CONVERGED
                    else finding
                )
        is_unknown = any(
            self.is_unknown_workload(log.find_value(events.WORKLOAD)) for log in group.logs
        )
        for source, conditions in self.library.read_set_telemetry(group):
            yield from self.judge_files([source])
            yield from self.apply_rules(conditions) if conditions and not is_unknown else ()
        for powered in self.library.read_run_powers(group):
            yield from () if is_unknown else self.apply_rules(powered, group.logs[0].workload)
        yield from (
            ()
            if is_unknown or any(log.is_unread for log in group.logs)
            else self.apply_rules(group, group.logs[0].workload if group.logs else None)
        )

    def convert_missed_to_warning(self, finding: Finding, runs: int) -> Finding:
        """Downgrade the finding that a run missed its target to a warning that says how many such
        runs a set may contain.
        """
        rules = self.round.training
        allowed = rules.not_converged_allowed if runs >= rules.olympic_from_runs else 0
        required = (
            f"{finding.required}; a set of {runs} may have {allowed} run(s) without, counted as the"
            " slowest"
        )
        return replace(finding, severity=Severity.WARNING, required=required)

    def judge_performance_runs(self, folder: Path) -> Iterator[Finding]:
        """Judge the performance runs of an entry, each on its own."""
        found = [
            path
            for path in list_subfolders(folder)
            if has_loadgen_logs(path) and path.name != RANGING_FOLDER
        ]
        if not found:
            yield from self.report_path_fault(
                folder,
                "no LoadGen run in the folder",
                "run_1/ with LoadGen's logs",
                FlawKind.MISSING,
            )
        for path in found:
            yield from self.judge_run_folder(path)

    def judge_run_folder(self, folder: Path) -> Iterator[Finding]:
        """Judge a LoadGen run on its own."""
        yield from self.recorder.record_result(
            ResultKind.RUN, folder, 0, self.judge_run_documents(folder)
        )

    def judge_run_documents(self, folder: Path) -> Iterator[Finding]:
        """Judge the files of a LoadGen run, and what they record."""
        run = self.library.read_run(folder)
        yield from self.judge_files(run.sources)
        workload = run.record.workload if run.record else None
        yield from (
            self.report_unknown_workload(folder, workload, OrganisationParts())
            if self.is_unknown_workload(workload)
            else self.cache_findings(folder, workload, self.judge_run(run, workload))
        )

    def cache_findings(
        self, folder: Path, workload: str | None, found: Iterable[Finding]
    ) -> Iterator[Finding]:
        """Yield the findings about a folder, which is checked only once."""
        if (folder, workload) not in self.cached_findings:
            self.cached_findings[folder, workload] = tuple(found)
        yield from self.cached_findings[folder, workload]

    def judge_run(self, run: LoadGenRun, workload: str | None) -> Iterator[Finding]:
        """Apply the rules to a run and to the telemetry recorded with it."""
        yield from self.apply_rules(run, workload)
        if conditions := build_serving_conditions(run):
            yield from self.apply_rules(conditions, workload)
        if powered := build_run_power(run):
            both = filter(None, (powered, build_idle_power_before_run(run, powered)))
            yield from dict.fromkeys(
                finding for each in both for finding in self.apply_rules(each, workload)
            )  # both have the same readings
        if session := self.library.find_power_session(run):
            yield from self.apply_rules(session, workload)

    def judge_entry_folder(
        self, folder: Path, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Finding]:
        """Judge an inference entry as one result, then the description of its system."""
        entry = self.library.read_entry(folder, place)
        parts.entries.append(entry)
        yield from self.recorder.record_result(
            ResultKind.ENTRY,
            folder,
            len(entry.runs),
            self.judge_entry_documents(entry, place, parts),
        )
        if place and place.system_file:
            yield from self.judge_system_file(place.system_file, place, parts)

    def judge_entry_documents(
        self, entry: InferenceEntry, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Finding]:
        """Judge each run of an entry, then all together, then its compliance tests."""
        folder = entry.folder
        is_unknown = self.is_unknown_workload(entry.workload)
        for run in entry.runs:
            yield from self.judge_files(run.sources)
            yield from (
                ()
                if is_unknown
                else self.cache_findings(
                    run.folder, entry.workload, self.judge_run(run, entry.workload)
                )
            )
        yield from self.judge_files(self.library.sources.get(folder, ()))
        yield from (
            self.report_unknown_workload(folder, entry.workload, parts)
            if is_unknown
            else self.apply_rules(entry, entry.workload)
        )
        for path in find_audit_folders(place) if place and not is_unknown else ():
            parts.audits.append(self.library.read_audit(path, entry.scenario, entry))
            yield from self.cache_findings(path, entry.workload, self.judge_audit(parts.audits[-1]))

    def judge_audit(self, audit: Audit) -> Iterator[Finding]:
        """Judge a compliance test: its runs like any other, except for what the test changes, then
        its outcome.
        """
        yield from self.judge_files(audit.sources)
        workload = audit.record.workload if audit.record else None
        for run in audit.runs:
            yield from self.judge_files(run.sources)
            changed = (
                collect_replaced_rules(
                    audit.record.settings if run in audit.test_runs else audit.record.beside
                )
                if audit.record
                else frozenset()
            )
            yield from (
                finding
                for finding in self.apply_rules(run, workload)
                if finding.rule not in changed
            )
        yield from self.apply_rules(audit, workload)

    def judge_audit_folder(self, path: Path, place: TreePosition) -> Iterator[Finding]:
        """Judge compliance tests by judging the results that they check."""
        folder = place.organisation_folder.joinpath("results", *place.list_parts_below(path)[1:4])
        if place.scenario and is_folder(folder):
            yield from self.judge_entry_folder(folder, place, OrganisationParts())
        else:
            yield from self.judge_organisation(place, [])

    def judge_measurements(self, path: Path, place: TreePosition) -> Iterator[Finding]:
        """Judge a measurements file by judging its entry, since it means nothing alone."""
        folder = (
            place.organisation_folder
            / "results"
            / path.parent.relative_to(place.organisation_folder / "measurements")
        )
        if place.scenario is None:
            yield from self.report_path_fault(
                path,
                "a measurements file outside a scenario's folder",
                MEASUREMENTS_PATH_FORM,
                FlawKind.UNREADABLE,
            )
        else:
            yield from self.judge_entry_folder(folder, place, OrganisationParts())

    def judge_checkpoint(self, folder: Path) -> Iterator[Finding]:
        """Judge the record of an exported checkpoint, with the training logs of its tree."""
        for home in list_tree_organisations(folder.parents[2]):
            for system in list_subfolders(home / "results"):
                for benchmark in list_subfolders(system):
                    self.library.remember_set_logs(
                        benchmark,
                        parse_tree_position(home, ("results", system.name, benchmark.name)),
                    )
        found = self.library.read_checkpoint(folder)
        yield from self.judge_files(self.library.sources[folder])
        yield from (
            self.apply_rules(found)
            if found and not self.is_unknown_workload(folder.parent.name)
            else ()
        )

    def judge_study(self, folder: Path) -> Iterator[Finding]:
        """Judge a study as one result."""
        yield from self.recorder.record_result(
            ResultKind.STUDY, folder, 0, self.judge_study_documents(folder)
        )

    def judge_study_documents(self, folder: Path) -> Iterator[Finding]:
        """Judge the files of a study, then its table."""
        files, documents = studies.read_study_documents(folder, self.round)
        yield from self.judge_files(files)
        for document in documents:
            yield from self.apply_rules(document)

    def judge_system_file(
        self, path: Path, place: TreePosition | None, parts: OrganisationParts
    ) -> Iterator[Finding]:
        """Judge a system description."""
        system = self.library.read_system(path, place)
        yield from self.judge_files(self.library.sources.get(path, ()))
        if system and all(system.path != other.path for other in parts.systems):
            parts.systems.append(system)
            yield from self.apply_rules(system)

    def judge_organisation(
        self,
        place: TreePosition,
        submissions: list[Submission],
        misnamed: Iterable[Path] = (),
        sealed: bool = False,
    ) -> Iterator[Finding]:
        """Judge an organisation's submission, or one of its systems or benchmarks, depending on how
        specific `place` is.
        """
        parts = OrganisationParts(unexpected_paths=list(misnamed))
        parts.unjudged_files.extend(
            unjudged_files.find_misplaced_files(place.organisation_folder)
            if place.system is None
            else ()
        )
        for system in list_subfolders(place.organisation_folder / "results"):
            for benchmark in list_subfolders(system):
                if place.system in (None, system.name) and place.benchmark in (
                    None,
                    benchmark.name,
                ):
                    yield from self.judge_benchmark(
                        parse_tree_position(
                            place.organisation_folder, ("results", system.name, benchmark.name)
                        ),
                        benchmark,
                        parts,
                    )
        for path in (
            find_orphaned_audits(place.organisation_folder, parts.entries)
            if place.system is None
            else ()
        ):
            parts.audits.append(
                self.library.read_audit(path, match_scenario_folder(path.parent.name), None)
            )
            yield from self.judge_audit(parts.audits[-1])
        submissions.append(
            parts.build_submission(place.organisation_folder, self.round, tuple(submissions))
        )
        yield from self.apply_rules(submissions[-1])
        yield from self.judge_ledgers(submissions[-1], sealed) if place.system is None else ()

    def judge_ledgers(self, submission: Submission, sealed: bool) -> Iterator[Finding]:
        """Judge the ledgers of an organisation; results that predate ledgers have none."""
        for path in sorted((submission.organisation_folder / LEDGER_FOLDER).glob("*.jsonl")):
            ledger = self.library.read_ledger(path, submission, sealed)
            yield from self.judge_files([ledger.source])
            yield from self.apply_rules(ledger)

    def judge_benchmark(
        self, place: TreePosition, folder: Path, parts: OrganisationParts
    ) -> Iterator[Finding]:
        """Judge a benchmark's folder: its training set and scenarios."""
        before = len(parts.unknown_workloads)
        known = {
            name
            for row in self.round.benchmarks.values()
            for name in (row.training_name, row.inference_name)
        }
        scenarios = [path for path in list_subfolders(folder) if match_scenario_folder(path.name)]
        if any(list_training_logs(folder)):
            yield from self.judge_set(folder, place, parts)
        elif not scenarios:
            parts.unexpected_paths.append(folder)
        parts.unexpected_paths.extend(
            path
            for path in list_subfolders(folder)
            if path.name not in [scenario.folder for scenario in Scenario]
        )
        for path in scenarios:
            yield from self.judge_entry_folder(
                path, replace(place, scenario=match_scenario_folder(path.name)), parts
            )
        if folder.name not in known and len(parts.unknown_workloads) == before:
            parts.unexpected_paths.append(folder)

    def judge_loose_results(self, folder: Path, kind: PathKind) -> Iterator[Finding]:
        """Judge the sets and entries in a benchmark's or system's folder outside a submission
        tree.
        """
        parts = OrganisationParts()
        for benchmark in [folder] if kind is PathKind.BENCHMARK else list_subfolders(folder):
            if any(list_training_logs(benchmark)):
                yield from self.judge_set(benchmark, None, parts)
            for path in (
                path for path in list_subfolders(benchmark) if match_scenario_folder(path.name)
            ):
                yield from self.judge_entry_folder(path, None, parts)

    def judge_tree(
        self, path: Path, submissions: list[Submission], sealed: bool = False
    ) -> Iterator[Finding]:
        """Judge a results folder: every organisation, the checkpoint records, and the studies."""
        found, studied = list(list_tree_organisations(path)), list(find_studies(path))
        if not found and not studied:
            yield from self.report_path_fault(
                path, "no organisation folder", "<division>/<org>/results/...", FlawKind.UNREADABLE
            )
        misnamed = list(unjudged_files.find_misplaced_folders(path, found))
        for home in found:
            yield from self.judge_organisation(
                TreePosition(organisation_folder=home),
                submissions,
                misnamed if home is found[0] else (),
                sealed,
            )
        for folder in self.library.iterate_checkpoint_folders(path):
            yield from self.judge_checkpoint(folder)
        for folder in studied:
            yield from self.judge_study(folder)
