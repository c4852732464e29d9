"""A kind of round as a plug-in: where its rounds lie, and how its results are recognised, read,
judged and scored.
"""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from suite.contracts import PartFunction

Part: TypeAlias = str
"""`module:attribute`, imported on use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundKind:
    """A kind of round: what an entry point of the group `podium.round_kinds` names.

    The record imports none of its parts. A part that is None does not exist for this kind. Records
    that parts return are those of `compliance.results`.
    """

    name: str
    """As a round's file states it (`round.kind`)."""
    rounds: str | None = None
    """Package with a TOML file for each of its rounds; None if `podium.rounds` names them all."""
    published: bool = True
    """Its results are MLCommons': they cannot be run here, and an error about the form of one is a
    warning.
    """
    load: Annotated[Part | None, PartFunction(("name",))] = None
    """Function of (name of a round) that returns the round, RequestError if its tables do not fit;
    None if a round is a name alone.
    """
    layout: Annotated[Part, PartFunction(("name", "aids"))]
    """Function of (name of a round, JudgingAids) that returns a Layout: what results consist of."""
    rules: str
    """Package of its rules."""
    shared_rules: tuple[str, ...] = ()
    """Other kinds whose rules its results are judged by, too."""
    seed_table: str | None = None
    """Table of a round's file with LoadGen's seeds, of which each round has its own."""
    evidence: Annotated[Part | None, PartFunction(("head",))] = None
    """Function of (FileHead) that returns RoundEvidence; None for a file that is no log of this
    kind.
    """
    places: Part | None = None
    """A ResultPlaces: what its results look like as files and folders, where that differs from the
    trees of MLPerf Training and Inference.
    """
    formal_keys: Annotated[Part | None, PartFunction(("round",))] = None
    """Function of (round) that returns the keys of training logs that its rules read."""
    check_settings: Part | None = None
    """A SettingsCheck: what it knows of settings before a run, for `podium check --config`."""
    score: Annotated[Part | None, PartFunction(("result", "name"))] = None
    """Function of (IndexedResult, name of a round) that returns a Result with what its logs state,
    JudgedError if they cannot be read; None if its results have no score of their own.
    """
    index_run: Annotated[Part | None, PartFunction(("folder",))] = None
    """Function of (folder of a run that is in no tree) that returns its IndexedResult; None if
    there are no such runs.
    """
    describe_system: Annotated[Part | None, PartFunction(("file", "position", "name"))] = None
    """Function of (file, TreePosition, name of a round) that returns the fields of a system's
    description, empty if it cannot be read.
    """
    list_runs: Annotated[Part | None, PartFunction(("folder",))] = None
    """Function of (folder of an entry) that returns the folders of its performance runs."""
    read_run: Annotated[Part | None, PartFunction(("folder", "name"))] = None
    """Function of (folder of a performance run, name of a round) that returns LoadGenFigures."""
    read_training_runs: Annotated[Part | None, PartFunction(("result", "name"))] = None
    """Function of (IndexedResult, name of a round) that returns a DrawnTrainingSet."""
    read_traits: Annotated[Part | None, PartFunction(("result", "name"))] = None
    """Function of (IndexedResult, name of a round) that returns a MadeWith; None if a round
    fixes all that must be equal, and logs nothing else.
    """
    find_benchmark: Annotated[Part | None, PartFunction(("name", "folder"))] = None
    """Function of (name of a round, name of a folder) that returns the round's name of a served
    benchmark, None if it knows none; None if folders have no other spellings.
    """
    list_benchmarks: Annotated[Part | None, PartFunction(("name",))] = None
    """Function of (name of a round) that returns the names of its training benchmarks."""
    read_curves: Annotated[Part | None, PartFunction(("folder", "name", "errors"))] = None
    """Function of (folder, name of a round, ErrorIndex of the judge's findings about the folder)
    that returns the ScoredCurves in it.
    """
    list_run_keys: Annotated[Part | None, PartFunction(("folder",))] = None
    """Function of (folder of a curve's point) that returns what no two runs share."""
    form: Annotated[Part | None, PartFunction(("name",))] = None
    """Function of (name of a round) that returns the form of its submissions, one of those in
    `compliance.results.submission_forms`; None if podium cannot write such a submission.
    """
