"""What a submission to a published round looks like, as a kind of round tells `podium submit`:
where files lie, and how many there are. What they must say is the rules', which judge the tree.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.rounds.endpoints_curve import EndpointsRound

SERVED_BENCHMARKS: Final[Mapping[str, str]] = {
    "resnet50": "resnet",
    "ssd": "ssd-large",
    "maskrcnn": "maskrcnn",
}
"""Folder of podium's results -> the benchmark of MLPerf Inference that it is of, where rounds take
the name for none, or for another one: v0.7 guesses that `rcnn` is ssd-small. Source:
mlcommons/inference, submission-checker.py, MODEL_CONFIG and get_mlperf_model.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveForm:
    """The form of a submission of curves to MLPerf Endpoints."""

    round: EndpointsRound
    results_folder: str
    point_file: str
    """In the folder of each point, as the four that follow."""
    summary_file: str
    config_file: str
    system_file: str
    records_folder: str
    """The files of the point's run, as LoadGen and podium wrote them."""
    power_file: str
    """In the folder of each system."""

    def locate_system(self, submission: Path, system: str) -> Path:
        """Return the folder of a system in a submission."""
        return submission / self.results_folder / system

    def locate_point(self, submission: Path, system: str, model: str, concurrency: int) -> Path:
        """Return the folder of a point in a submission."""
        return self.locate_system(submission, system) / model / f"r{concurrency}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingForm:
    """The form of a submission to a round of MLPerf Training."""

    benchmarks: Mapping[str, int]
    """Name of a benchmark's folder -> runs of a set; without those that have a name of podium's
    for another network.
    """
    initialization_logged: bool
    """The round's checker asks logs for the tensors that were initialised."""
    system_fields: tuple[str, ...]
    """Fields that a system's description must have beside its names; empty: few are asked for."""
    system_statuses: tuple[str, ...]
    """The only texts that its status may be; empty: any."""

    def has_benchmark(self, folder: str) -> bool:
        """Return whether a folder's name is that of a benchmark of the round."""
        return folder in self.benchmarks

    def locate_log(self, organisation: Path, system: str, benchmark: str, run: int) -> Path:
        """Return the path of a run's log, numbered from 0."""
        return organisation / "results" / system / benchmark / f"result_{run}.txt"

    def locate_description(self, organisation: Path, system: str) -> Path:
        """Return the path of a system's description."""
        return organisation / "systems" / f"{system}.json"

    def locate_code(self, organisation: Path, benchmark: str) -> Path:
        """Return the folder of a benchmark's code."""
        return organisation / "benchmarks" / benchmark / "implementations"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceForm:
    """The form of a submission to a round of MLPerf Inference."""

    find_benchmark: Callable[[str], str | None]
    """Function of (name of a folder) that returns the round's benchmark; None if it has none."""
    together: bool
    """Measurements and compliance tests lie in the folder of the results."""
    tests_folder: str
    """Else the folder of the compliance tests in the organisation's."""
    code_folder: str
    """Folder of the code in the organisation's."""
    measurement_files: tuple[str, ...]
    """Files that lie beside the measurements of a scenario."""

    def has_benchmark(self, folder: str) -> bool:
        """Return whether the round has the benchmark of podium's results in a folder."""
        return self.find_folder(folder) is not None

    def find_folder(self, folder: str) -> str | None:
        """Return the name that a folder of podium's results has in a submission: its own where the
        round knows that, or else the benchmark's; None if the round does not have the benchmark.
        """
        benchmark = SERVED_BENCHMARKS.get(folder)
        if benchmark is None:
            return folder if self.find_benchmark(folder) else None
        names = (each for each in (folder, benchmark) if self.find_benchmark(each) == benchmark)
        return next(names, None)

    def locate_scenario(self, organisation: Path, place: tuple[str, str, str]) -> Path:
        """Return the folder of the runs of a (system, benchmark, scenario)."""
        return organisation.joinpath("results", *place)

    def locate_measurements(self, organisation: Path, place: tuple[str, str, str]) -> Path:
        """Return the folder of its measurements."""
        if self.together:
            return self.locate_scenario(organisation, place)
        return organisation.joinpath("measurements", *place)

    def name_model_document(self, place: tuple[str, str, str], implementation: str) -> str:
        """Return the name of the file among its measurements that says how its model was made."""
        if self.together:
            return "measurements.json"
        system, _, scenario = place
        return f"{system}_{implementation}_{scenario}.json"

    def locate_tests(self, organisation: Path, place: tuple[str, str, str]) -> Path:
        """Return the folder of its compliance tests."""
        if self.together:
            return self.locate_scenario(organisation, place)
        return organisation.joinpath(self.tests_folder, *place)

    def locate_description(self, organisation: Path, system: str) -> Path:
        """Return the path of a system's description."""
        return organisation / "systems" / f"{system}.json"

    def locate_code(self, organisation: Path, benchmark: str) -> Path:
        """Return the folder of a benchmark's code."""
        return organisation / self.code_folder / benchmark
