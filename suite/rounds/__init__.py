"""Rounds as data: every number is in a TOML file beside its source.

A round is the union of the files `<round>.toml` in all packages of the entry-point group `podium.rounds`: the
round's own rules lie in `suite.rounds`, each workload's row lies in the workload's folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from suite.errors import RequestError, unknown
from suite.events import CORPUS_SAMPLES, EVAL_SAMPLES, TRAIN_SAMPLES
from suite.loadgen.scenario import Scenario
from suite.terms import Division as Division
from suite.terms import Profile as Profile

HyperValue: TypeAlias = bool | int | float | str | tuple[int | float, ...]
"""A hyper-parameter or setting, as logs and TOML have them."""


class RoundKind(StrEnum):
    """What is done with a round."""

    PODIUM = "podium"
    """Run and judged."""
    TRAINING = "training"
    """Published training results: judged and scored."""
    INFERENCE = "inference"
    """Published inference results: judged and scored."""


class Kind(StrEnum):
    """The type of a setting's value."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    TEXT = "text"
    NUMBERS = "numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What `--set` and `--config` may change."""

    kind: Kind
    help: str
    default: HyperValue | None = None
    """Where neither profile nor recipe names a value; None: the profile must."""
    choices: tuple[str, ...] = ()
    log: bool = False
    """A hyper-parameter, logged under this name and judged for constancy and legality."""
    free: str = ""
    """Why the closed division leaves it to the user, and where that stands; empty: each closed training row has a constraint of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """What the closed division allows for one hyper-parameter; all that is given must hold."""

    key: str
    equals: HyperValue | None = None
    one_of: tuple[bool | int | float | str, ...] = ()
    none_of: tuple[bool | int | float | str, ...] = ()
    any_case: bool = False
    """Text is compared with `equals` and `one_of` whatever its case."""
    minimum: float | None = None
    above: float | None = None
    below: float | None = None
    at_most_key: str | None = None
    """The value is not above that of this hyper-parameter."""
    multiple_of: float | None = None
    power_of_two_times: float | None = None
    """value = this x 2^N for a whole N, positive or negative."""
    grid: tuple[float, ...] = ()
    """value = a list of these x (1 + k / 10) for one whole k ..."""
    grid_times: float = 1.0
    """... x this ..."""
    grid_per_key: str | None = None
    """... / this hyper-parameter, rounded either way."""
    integer: bool = False
    when_key: str | None = None
    """Applies only where this hyper-parameter ..."""
    when_one_of: tuple[bool | int | float | str, ...] = ()
    """... has one of these values ..."""
    when_below: float | None = None
    """... or is below this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """One workload's training half under one profile."""

    division: Division
    target: Mapping[str, float]
    """Metric -> quality to reach in the last evaluation (>=)."""
    runs: int
    """Runs of a set; with five or more the fastest and the slowest are dropped."""
    max_epochs: int
    evaluate_every_epochs: int = 1
    evaluation_epochs: tuple[int, ...] = ()
    """The epochs of the evaluations, in order, where the rules name them; nothing else is said then."""
    evaluate_offset_epochs: tuple[int, ...] = (0,)
    """The first evaluation may come this many epochs later; MLPerf resnet: 0-3."""
    fewest_epochs: int = 1
    """With fewer no run has reached the target; one that did is odd."""
    precision: str = "fp32"
    settings: Mapping[str, HyperValue] = field(default_factory=dict)
    recipes: tuple[Mapping[str, HyperValue], ...] = ()
    """Reference convergence points; the one with the run's global_batch_size fills in what the user did not set."""
    constraints: tuple[Constraint, ...] = ()
    required: tuple[str, ...] = ()
    """Hyper-parameters that the log must have."""
    train_samples: int | None = None
    """Size of the training set that the profile asks for; None: as many as the data has."""
    corpus_samples: tuple[int, ...] = ()
    """Fewest and most samples of the training set before any is left out for its length, where a free limit decides how many are; empty: any number."""
    eval_samples: int | None = None
    """Size of the set that it is evaluated on."""

    def samples(self) -> Mapping[str, tuple[int, int]]:
        """Give the fewest and the most samples that each size of the data, by its name in the log, may have; sizes that the row leaves open are left out."""
        counts = {TRAIN_SAMPLES: self.train_samples, EVAL_SAMPLES: self.eval_samples}
        ranges = {key: (count, count) for key, count in counts.items() if count is not None}
        return ranges | ({CORPUS_SAMPLES: (self.corpus_samples[0], self.corpus_samples[-1])} if self.corpus_samples else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRow:
    """What makes one LoadGen performance run valid."""

    percentile: float
    """0-100: of the reported latency, or the share that must hold the bound."""
    bound_ns: int | None = None
    """Server's latency bound."""
    min_duration_ms: int
    min_queries: int
    """Of Offline, whose one query holds them all, the samples: LoadGen reads min_query_count so."""
    samples_per_query: int = 1
    runs: int = 1
    house_rule: bool = False
    """MLPerf never had this rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationList:
    """A list of the samples that static quantisation may look at."""

    samples: int
    """How many names it has."""
    names_sha256: str | None = None
    """suite.files.layout.names_sha256 of them; None: it is known by its name and its size alone."""
    of_accuracy_set: bool = False
    """Its samples belong to the accuracy set, as those of MLPerf's ImageNet lists do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRow:
    """One workload's inference half under one profile."""

    division: Division
    performance_samples: int
    accuracy_samples: int | None = None
    """Size of the accuracy set that the profile asks for; None: as many as the data has."""
    truth_sha256: str | None = None
    """suite.files.layout.folder_sha256 of the truth that everybody has, that of the embedded data; None: the truth is the user's."""
    threshold: Mapping[str, float] = field(default_factory=dict)
    """Metric -> quality that a served result must reach besides the reference accuracy's share."""
    scenarios: Mapping[Scenario, ScenarioRow] = field(default_factory=dict)
    settings: Mapping[str, HyperValue] = field(default_factory=dict)
    calibration: Mapping[str, CalibrationList] = field(default_factory=dict)
    """Name -> list; a quantised system is calibrated with one of them. Empty: the round has none for this workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One workload's row."""

    title: str
    training_name: str
    """The folder and `submission_benchmark` of training results; MLPerf calls resnet50 `resnet` there."""
    inference_name: str
    metrics: Mapping[str, str]
    """Metric -> its key in a structured eval_accuracy (BBOX, SEGM); empty text: the value is the number itself."""
    settings: Mapping[str, Setting]
    training: Mapping[Profile, TrainingRow]
    inference: Mapping[Profile, InferenceRow]
    served_metrics: tuple[str, ...] = ()
    """What a served result is scored by, and the reference accuracy, where that is not what training is evaluated by; empty: `metrics`."""
    reference_within: Mapping[str, float] = field(default_factory=dict)
    """Metric -> how far reference accuracy, last evaluation and a served fp32 result lie apart at most, all of the same weights and samples.

    Only of metrics that are the share of samples answered right in one pass of the network; others hang on training's own settings.
    """
    fastest_step_us: float | None = None
    """An optimizer step takes longer than that on any device; None: nobody can say."""
    not_quantised: str = ""
    """Why this workload is served in no number format that needs calibration; empty: it may be, where a row has a list."""
    precision_settings: Mapping[str, HyperValue] = field(default_factory=dict)
    """What `podium precision` serves with, so that its table tells more than a result has to."""
    embedded: tuple[Profile, ...] = (Profile.SMOKE,)
    """Profiles that have data of their own; the others are run with the user's alone."""
    data: str = ""
    """What the user's `--data DIR` has to hold, in words."""
    smoke_minutes: float | None = None
    """Of the whole campaign in `smoke`, on two free CPU cores."""
    smoke_memory_gb: float | None = None
    """Of its largest process, in GB."""

    @property
    def scored(self) -> tuple[str, ...]:
        """Name the metrics of the reference accuracy and of every served result."""
        return self.served_metrics or tuple(self.metrics)

    def check_data(self, workload: str, profile: Profile, data: Path | None) -> None:
        """Refuse a profile that is about the real data where there are none: what trains on others is no such run."""
        if data is None and profile not in self.embedded:
            wanted = f", a folder with {self.data}" if self.data else ", the folder of its data set"
            raise RequestError(f"{workload} in profile {profile} needs --data DIR{wanted}; embedded data exist for {listed(self.embedded)}")


def listed(profiles: tuple[Profile, ...]) -> str:
    """Name some profiles."""
    return f"profile {', '.join(profiles)} alone" if profiles else "no profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenRules:
    """Settings every LoadGen run of the round has."""

    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int
    accuracy_share: float
    """0-1: share of reference_accuracy that every served result must reach."""
    sampled_answers: int
    """Answers that a performance run logs (accuracy_log_sampling_target); 0 where the round forbids it."""
    ceiling_share: float
    """0-1: a result above this share of the host's harness ceiling is flagged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRules:
    """Rules of the round that are the same for all workloads."""

    init_limit_ms: int
    olympic_from_runs: int
    """Sets of at least this many runs drop the fastest and the slowest."""
    not_converged_allowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRules:
    """From where on a run's conditions are worth a warning; shares are 0-1."""

    others_share: float
    """Of the cores, used by others on average ..."""
    others_peak_share: float
    """... or over `peak_s` seconds."""
    peak_s: float
    steal_share: float
    trend_share: float
    """By which the rates of the two halves of a run differ."""
    throttle_share: float
    """Of the samples in which heat or a power brake held a GPU's clock down."""
    clock_share: float
    """Of the first quarter's clock, below which the last quarter's is lower."""
    governor: str
    """The CPU frequency governor of an undisturbed host."""
    gap_s: float
    """Without a reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A round, whole: rules, settings and one row per workload."""

    name: str
    title: str
    loadgen: LoadGenRules
    training: TrainingRules
    settings: Mapping[str, Setting]
    """Settings that every workload has; a profile's or workload's own value goes first."""
    benchmarks: Mapping[str, Benchmark]
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML (resnet50.training.smoke.target.top1) -> where it comes from."""
    noise: NoiseRules | None = None
    """None where the round says nothing of noise."""

    def benchmark(self, workload: str) -> Benchmark:
        """Give a workload's row; RequestError names the nearest."""
        if workload not in self.benchmarks:
            raise unknown("workload", workload, self.benchmarks)
        return self.benchmarks[workload]

    def source(self, path: str) -> str:
        """Say where the value at a dotted path comes from, or the nearest table around it."""
        while path not in self.sources and "." in path:
            path = path.rpartition(".")[0]
        return self.sources.get(path, f"round {self.name}")
