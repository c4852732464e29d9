"""Rounds as data: every number is in a TOML file, next to its source.

A round is the union of the files `<round>.toml` in the packages of all workloads and of the
entry-point group `podium.rounds`: the round's own rules are in `suite.rounds`, each workload's row
is in the workload's folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from suite.errors import RequestError, build_unknown_name_error
from suite.events import CORPUS_SAMPLES, EVAL_SAMPLES, TRAIN_SAMPLES
from suite.loadgen.scenario import Scenario
from suite.rounds.constraints import Constraint as Constraint
from suite.rounds.constraints import HyperValue as HyperValue
from suite.terms import Division as Division
from suite.terms import Precision as Precision
from suite.terms import Profile as Profile


class SettingKind(StrEnum):
    """The type of a setting's value."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    TEXT = "text"
    NUMBERS = "numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting that `--set` and `--config` accept."""

    kind: SettingKind
    help: str
    default: HyperValue | None = None
    """Used if neither profile nor recipe sets a value; None: the profile must."""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    """The smallest legal number, or the smallest entry of a list; None: `above`, or any."""
    above: float | None = None
    """A number that legal ones are above."""
    maximum: float | None = None
    """The largest legal number."""
    automatic: bool = False
    """`auto` is accepted in place of a number: the machine decides, before anything is recorded."""
    log: bool = False
    """A hyper-parameter, logged under this name and checked for constancy and legality."""
    method: str = ""
    """Setting that says how a logged limit is enforced, which logs state beside it."""
    free: str = ""
    """Why the closed division leaves it to the user, with source; empty: each closed training row
    has a constraint on it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """One workload's training half under one profile."""

    division: Division
    target: Mapping[str, float]
    """Metric -> quality to reach in the last evaluation: at least this, or at most if the metric is
    lower-is-better.
    """
    runs: int
    """Runs per set; with five or more the fastest and the slowest are dropped."""
    max_epochs: int
    evaluate_every_epochs: int = 1
    evaluation_epochs: tuple[int, ...] = ()
    """Epochs of the evaluations, in order, if the rules name them; evaluate_every_epochs and
    evaluate_offset_epochs then do not apply.
    """
    evaluate_offset_epochs: tuple[int, ...] = (0,)
    """The first evaluation may come this many epochs later; MLPerf resnet: 0-3."""
    expected_epochs: float | None = None
    """Epochs that runs with the row's own settings took to the target, on average; None: unknown.
    A dry run estimates with it, and no rule does.
    """
    fewest_epochs: int = 1
    """No run reaches the target in fewer epochs; one that did is suspicious."""
    best_possible: Mapping[str, float] = field(default_factory=dict)
    """Metric -> value that no evaluation passes, whatever the model: embedded data may have a known
    entropy.
    """
    precision: str = "fp32"
    settings: Mapping[str, HyperValue] = field(default_factory=dict)
    recipes: tuple[Mapping[str, HyperValue], ...] = ()
    """Reference convergence points; the one for the run's global_batch_size fills in what the user
    did not set.
    """
    constraints: tuple[Constraint, ...] = ()
    required: tuple[str, ...] = ()
    """Hyper-parameters that the log must contain."""
    train_samples: int | None = None
    """Size of the training set that the profile requires; None: any."""
    earlier_train_samples: tuple[int, ...] = ()
    """Sizes of embedded training sets that earlier versions of podium generated; results on them
    are still accepted.
    """
    corpus_samples: tuple[int, ...] = ()
    """Fewest and most samples in the training set before filtering by length, if an unconstrained
    limit decides how many remain; empty: any number.
    """
    eval_samples: int | None = None
    """Size of the evaluation set."""

    def list_due_epochs(self, last: int | None) -> list[int]:
        """Return the epochs after which the next evaluation may come; `last` is the epoch of the
        previous one, None without one.
        """
        if self.evaluation_epochs:
            return [epoch for epoch in self.evaluation_epochs if epoch > (last or 0)][:1]
        if last is None:
            return [self.evaluate_every_epochs + offset for offset in self.evaluate_offset_epochs]
        return [last + self.evaluate_every_epochs]

    def collect_sample_limits(self) -> Mapping[str, tuple[int, int]]:
        """Return the fewest and most samples allowed for each data size, by its name in the log;
        sizes that the row leaves open are omitted.
        """
        counts = {TRAIN_SAMPLES: self.train_samples, EVAL_SAMPLES: self.eval_samples}
        limits = {key: (count, count) for key, count in counts.items() if count is not None}
        if self.corpus_samples:
            limits[CORPUS_SAMPLES] = (self.corpus_samples[0], self.corpus_samples[-1])
        return limits


MAX_NEW_TOKENS_SETTING: Final = "decode.max_new_tokens"
"""Setting of workloads that generate: tokens after which an answer is cut."""
TOKEN_BOUNDS_SETTING: Final = "tokens.bounds"
"""Setting that says which of a row's bounds of tokens Server is held to."""
INTERACTIVE_BOUNDS: Final = "interactive"
"""Its value for the tighter ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBounds:
    """Bounds of the time to the first token, and of the time per further token."""

    first_token_ns: int
    per_token_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRow:
    """Conditions for a valid LoadGen performance run."""

    percentile: float
    """0-100: percentile of the reported latency, or share of queries that must meet the bound."""
    bound_ns: int | None = None
    """Server's latency bound, unless tokens have bounds."""
    token_latencies: bool = False
    """LoadGen measures the time to the first token (TTFT) and the time per further token (TPOT)."""
    first_token_ns: int | None = None
    """Server's bound of TTFT ..."""
    per_token_ns: int | None = None
    """... and of TPOT."""
    interactive: TokenBounds | None = None
    """Server's bounds with `tokens.bounds` set to interactive, which MLPerf calls a scenario of its
    own: LoadGen measures it as Server.
    """
    min_duration_ms: int
    min_queries: int
    """For Offline, which sends one query with all samples, the number of samples: LoadGen reads
    min_query_count that way.
    """
    samples_per_query: int = 1
    equal_issue: bool = False
    """Each sample is issued equally often, in whole rounds (sample_concatenate_permutation)."""
    runs: int = 1
    house_rule: bool = False
    """MLPerf never had this rule."""

    def select_token_bounds(self, settings: Mapping[str, HyperValue]) -> "ScenarioRow":
        """Return the row with the bounds of tokens that the settings ask for; unchanged where it
        has no others.
        """
        if self.interactive is None or settings.get(TOKEN_BOUNDS_SETTING) != INTERACTIVE_BOUNDS:
            return self
        return replace(
            self,
            first_token_ns=self.interactive.first_token_ns,
            per_token_ns=self.interactive.per_token_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationList:
    """A list of the samples allowed for calibrating static quantisation."""

    samples: int
    """Number of names."""
    names_sha256: str | None = None
    """suite.files.layout.compute_names_sha256 of them; None: only name and size identify the
    list.
    """
    of_accuracy_set: bool = False
    """Its samples belong to the accuracy set, like those of MLPerf's ImageNet lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRow:
    """One workload's inference half under one profile."""

    division: Division
    performance_samples: int
    accuracy_samples: int | None = None
    """Size of the accuracy set that the profile requires; None: any."""
    truth_sha256: str | None = None
    """suite.files.layout.compute_folder_sha256 of the embedded data's truth, which is the same for
    everybody; None: the truth is the user's.
    """
    earlier_truth_sha256: tuple[str, ...] = ()
    """Truths of embedded data that earlier versions of podium generated; results on them are still
    accepted.
    """
    truth_files: Mapping[str, str] = field(default_factory=dict)
    """File of the user's truth that everybody takes from one place -> SHA-256 of its content."""
    published_weights: str = ""
    """Model whose published weights may be imported and served in place of weights that were
    trained here: the benchmark's own; empty: none.
    """
    threshold: Mapping[str, float] = field(default_factory=dict)
    """Metric -> quality that a served result must reach in addition to the share of the reference
    accuracy.
    """
    threshold_most: Mapping[str, float] = field(default_factory=dict)
    """Metric -> value that a served result must not exceed."""
    scenarios: Mapping[Scenario, ScenarioRow] = field(default_factory=dict)
    settings: Mapping[str, HyperValue] = field(default_factory=dict)
    untrained_settings: Mapping[str, HyperValue] = field(default_factory=dict)
    """Settings with which the answers of random weights are about as long as those of trained ones:
    a dry run serves with them where the user sets nothing else.
    """
    calibration: Mapping[str, CalibrationList] = field(default_factory=dict)
    """Name -> list; a quantised system is calibrated with one of them. Empty: the round has none
    for this workload.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One workload's row."""

    title: str
    training_name: str
    """Folder and `submission_benchmark` of training results; MLPerf calls resnet50 `resnet` there.
    """
    inference_name: str
    metrics: Mapping[str, str]
    """Metric -> its key in a structured eval_accuracy (BBOX, SEGM); empty text: eval_accuracy is a
    plain number.
    """
    settings: Mapping[str, Setting]
    training: Mapping[Profile, TrainingRow]
    inference: Mapping[Profile, InferenceRow]
    lower_is_better: tuple[str, ...] = ()
    """Metrics of training that are errors or losses, from 0 on; no served result has them."""
    evaluations_below: Mapping[str, float] = field(default_factory=dict)
    """Metric -> value that every evaluation is below, where the checker of the benchmark's own
    round asks for that; any other metric reaches 1, or is lower-is-better.
    """
    counts_samples: bool = False
    """Blocks and evaluations log the samples trained so far, `samples_count`, beside epochs."""
    served_metrics: tuple[str, ...] = ()
    """Metrics of a served result and of the reference accuracy, if they differ from what training
    is evaluated by; empty: `metrics`.
    """
    reference_within: Mapping[str, float] = field(default_factory=dict)
    """Metric -> largest difference between reference accuracy, last evaluation and a served fp32
    result, all from the same weights and samples.

    Only for metrics that are the share of samples answered correctly in one forward pass; others
    depend on training's own settings.
    """
    fastest_step_us: float | None = None
    """No device takes less time for an optimizer step; None: unknown."""
    lowest_loss: float | None = None
    """No loss of the workload is lower: a cross-entropy is never negative; None: unknown."""
    latency_budget_ms: float | None = None
    """Latency within which vendors state throughput of such tasks; a bound for `podium peak` and
    `podium sweep`, never the round's. None: there is none.
    """
    not_quantised: str = ""
    """Why this workload is not served in a number format that needs calibration; empty: it may be,
    if a row has a list.
    """
    generated_with: Mapping[str, tuple[Precision, ...]] = field(default_factory=dict)
    """Engine -> number formats that answers are generated in, token by token; empty: an engine
    computes whole answers, in all formats that it has.
    """
    precision_settings: Mapping[str, HyperValue] = field(default_factory=dict)
    """Settings that `podium precision` serves with, so that its table shows more than a result
    requires.
    """
    embedded: tuple[Profile, ...] = (Profile.SMOKE,)
    """Profiles with embedded data; the others need the user's data."""
    data: str = ""
    """Description of what the user's `--data DIR` must contain."""
    smoke_minutes: float | None = None
    """Minutes of the whole campaign in `smoke`, on two CPU cores."""
    smoke_memory_gb: float | None = None
    """Memory of its largest process, or of all together, as the source states; in GB."""

    @property
    def scored_metrics(self) -> tuple[str, ...]:
        """Name the metrics of the reference accuracy and of every served result."""
        return self.served_metrics or tuple(self.metrics)

    def check_data(self, workload: str, profile: Profile, data: Path | None) -> None:
        """Reject a profile that requires real data if none are given: a run on other data is not a
        run of that profile.
        """
        if data is None and profile not in self.embedded:
            if self.data:
                wanted = f", a folder with {self.data}"
            else:
                wanted = ", the folder of its data set"
            raise RequestError(
                f"{workload} in profile {profile} needs --data DIR{wanted}; embedded data exist for"
                f" {format_profiles(self.embedded)}"
            )


def format_profiles(profiles: tuple[Profile, ...]) -> str:
    if profiles:
        return f"profile {', '.join(profiles)} alone"
    return "no profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenRules:
    """Settings every LoadGen run of the round has."""

    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int
    accuracy_share: float
    """0-1: share of reference_accuracy that every served result must reach."""
    sampled_answers: int
    """Answers that a performance run logs (accuracy_log_sampling_target); 0 if the round forbids
    it.
    """
    ceiling_share: float
    """0-1: a result above this share of the host's harness ceiling is flagged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRules:
    """Rules of the round that are the same for all workloads."""

    init_limit_ms: int
    olympic_from_runs: int
    """Sets with at least this many runs drop the fastest and the slowest."""
    not_converged_allowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRules:
    """Thresholds from which a run's conditions cause a warning; shares are 0-1."""

    others_share: float
    """Share of the cores used by other programs on average ..."""
    others_peak_share: float
    """... or over `peak_s` seconds."""
    peak_s: float
    steal_share: float
    trend_share: float
    """Difference between the rates of the two halves of a run ..."""
    trend_level: float
    """... and the share of steady runs in which chance alone may cause such a warning."""
    throttle_share: float
    """Share of samples in which heat or a power brake throttled a GPU."""
    clock_share: float
    """Clock of the last quarter as a share of the first quarter's, below which a warning is due."""
    governor: str
    """The CPU frequency governor of an undisturbed host."""
    gap_s: float
    """Time without a reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A complete round: rules, settings and one row per workload."""

    name: str
    title: str
    loadgen: LoadGenRules
    training: TrainingRules
    settings: Mapping[str, Setting]
    """Settings that every workload has; a profile's or workload's own value takes precedence."""
    benchmarks: Mapping[str, Benchmark]
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML (resnet50.training.smoke.target.top1) -> its source."""
    noise: NoiseRules | None = None
    """None if the round has no noise rules."""

    def benchmark(self, workload: str) -> Benchmark:
        """Return a workload's row; RequestError names the nearest."""
        if workload not in self.benchmarks:
            raise build_unknown_name_error("workload", workload, self.benchmarks)
        return self.benchmarks[workload]

    def find_source(self, path: str) -> str:
        """Return the source of the value at a dotted path, or of the nearest enclosing table."""
        while path not in self.sources and "." in path:
            path = path.rpartition(".")[0]
        return self.sources.get(path, f"round {self.name}")
