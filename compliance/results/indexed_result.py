"""A run set or an inference entry, with the places of its files in its tree."""

from dataclasses import dataclass
from pathlib import Path

from compliance.recognition import tree_path
from suite.errors import JudgedError
from suite.files.layout import AUDITS_FOLDER
from suite.loadgen.scenario import Scenario
from suite.result import ResultPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedResult:
    """A unit of scoring: a run set, or the runs of one scenario."""

    folder: Path
    """Folder of its logs."""
    organisation_folder: Path | None
    """The organisation's folder; None outside a results tree, where the logs name the submitter."""
    system: str
    """The system's folder name; empty if no folder states it."""
    workload: str
    """The workload's name; the folder's name if no workload uses it for results."""
    scenario: Scenario | None
    """None for a run set."""
    single_log: Path | None = None
    """The only training log requested; None for the whole set."""
    training_logs: tuple[Path, ...] = ()
    """The training logs, in the order of their numbers, as they were when the result was found. A
    folder that changes meanwhile changes no reader's list.
    """

    @property
    def scenario_name(self) -> str | None:
        """The scenario's name in tables; None for a run set. LoadGen runs Interactive as
        Server, with tighter bounds.
        """
        if self.scenario is None:
            return None
        if self.folder.name.casefold() == tree_path.INTERACTIVE_FOLDER.casefold():
            return tree_path.INTERACTIVE_FOLDER
        return self.scenario.label

    @property
    def org(self) -> str:
        """The organisation's folder name; empty outside a tree."""
        if self.organisation_folder:
            return self.organisation_folder.name
        return ""

    @property
    def division(self) -> str:
        """The division; empty if the tree has no such level."""
        if not self.organisation_folder:
            return ""
        position = tree_path.TreePosition(organisation_folder=self.organisation_folder)
        return str(position.division or "")

    def build_place(
        self,
        round_name: str,
        profile: str,
        *,
        division: str = "",
        org: str = "",
        system: str = "",
        workload: str = "",
    ) -> ResultPlace:
        """Build the place of the result in its tree. What its logs say of division, organisation
        and system stands where no folder does; a workload that they name is better known.
        """
        location = self.folder.name
        if self.organisation_folder:
            location = self.folder.relative_to(self.results_root).as_posix()
        return ResultPlace(
            round=round_name,
            profile=profile,
            division=self.division or division,
            org=self.org or org,
            system=self.system or system,
            workload=workload or self.workload,
            scenario=self.scenario_name,
            benchmark=(self.folder.parent if self.scenario else self.folder).name,
            location=location,
        )

    @property
    def known_organisation_folder(self) -> Path:
        """The organisation's folder of a result that must be in a results tree; JudgedError if it
        is not.
        """
        if self.organisation_folder is None:
            raise JudgedError(
                f"{self.folder}: not in a results tree:"
                " <results>/<division>/<organisation>/results/<system>/..."
            )
        return self.organisation_folder

    @property
    def results_root(self) -> Path:
        """The results folder that contains the result."""
        if self.division:
            return self.known_organisation_folder.parent.parent
        return self.known_organisation_folder.parent

    @property
    def system_file(self) -> Path:
        """The system description."""
        return self.known_organisation_folder / "systems" / f"{self.system}.json"

    @property
    def truth_folder(self) -> Path:
        """The folder of labels, annotations or references."""
        return self.known_organisation_folder / "truth" / self.workload

    @property
    def measurements_folder(self) -> Path:
        """The folder of a scenario's measurements."""
        return (
            self.known_organisation_folder
            / "measurements"
            / self.folder.relative_to(self.known_organisation_folder / "results")
        )

    @property
    def audit_folders(self) -> list[Path]:
        """The folders of a scenario's compliance tests that exist."""
        folder = (
            self.known_organisation_folder
            / AUDITS_FOLDER
            / self.folder.relative_to(self.known_organisation_folder / "results")
        )
        if folder.is_dir():
            return [folder]
        return []

    @property
    def telemetry_files(self) -> list[Path]:
        """Telemetry files of the training logs."""
        return list(tree_path.iterate_training_telemetry(self.folder))

    @property
    def accuracy_folder(self) -> Path:
        """The folder of the accuracy run."""
        return self.folder / "accuracy"

    @property
    def performance_folders(self) -> list[Path]:
        """The folders of the finished performance runs, in the order of their numbers."""
        return list(tree_path.iterate_performance_runs(self.folder))
