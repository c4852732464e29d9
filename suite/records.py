"""The records that podium writes next to logs, one dataclass each; their JSON Schemas are in
compliance/schemas.

Written by the harness, read by the judge and by bundles.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from suite.audits.names import ANSWER_TESTS
from suite.files.json_files import write_json
from suite.loadgen.advice import Hint
from suite.rounds import HyperValue


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """`record.json` next to exported weights: their provenance."""

    workload: str
    round: str
    profile: str
    framework: str
    sha256: str
    """suite.files.layout.compute_folder_sha256 of the weights' folder."""
    nonce: str
    """Nonce of the campaign; binds every LoadGen run to this training set."""
    seed: int
    run_index: int
    training_log: str
    """Path of the training log, relative to the results folder."""
    target_reached: bool
    scores: Mapping[str, float]
    """Scores of the last evaluation."""
    reference_accuracy: Mapping[str, float]
    """Accuracy in fp32, eager mode, with inference's settings on the accuracy set; every served
    result must reach 99 % of it.
    """
    settings: Mapping[str, HyperValue]
    version: str
    """Version of podium."""
    origin: str = ""
    """Where weights come from that were not trained here: random, or imported; empty for weights of
    a training.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRecord:
    """Calibration samples of one network of a quantised system; part of the measurements file."""

    list: str
    names: tuple[str, ...]
    """Every name in the calibration list."""
    samples: tuple[str, ...]
    """The names that were used."""
    sha256: tuple[str, ...]
    """SHA-256 of each used sample's file, in the same order."""
    touched: tuple[str, ...]
    """Used samples that are also in the accuracy set."""
    method: str


ROUGH_EDGE_SHARE: Final = 0.1
"""Share of an energy from which on the error at its edges is reported. Source: house rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyRecord:
    """Energy of a performance run by one power channel or by a sum of parts."""

    name: str
    """Name of the channel: `rapl:package0`; `components` for a sum."""
    source: str
    grade: str
    """How direct it is: analyzer, meter, sensor, counter."""
    scope: tuple[str, ...]
    """The parts of the machine that it covers."""
    within: tuple[str, ...]
    """Scopes that contain these parts."""
    joules: float
    average_w: float
    edge_j: float
    """Bound of the error at the window's edges."""
    readings: int
    """Readings inside the window."""
    longest_gap_ms: int
    mlperf_mean_w: float | None
    """Mean of the readings, as MLPerf Power computes it; None for counters and sums."""
    per_sample_j: float | None
    samples_per_s_per_w: float | None
    mj_per_query: float | None
    """Only of SingleStream and MultiStream."""
    per_token_j: float | None = None
    """Only of answers that are generated token by token."""
    call: str = ""
    """Which of its source's readings: `nvmlDeviceGetPowerUsage`; empty where a source has one
    alone, for sums, and in older records.
    """

    @property
    def grade_description(self) -> str:
        """The grade, and the call if there is one."""
        return f"grade {self.grade}" + (f" by {self.call}" if self.call else "")

    @property
    def is_rough(self) -> bool:
        """Whether the error at the window's edges may be more than ROUGH_EDGE_SHARE of the
        energy.
        """
        return self.edge_j > ROUGH_EDGE_SHARE * self.joules

    @property
    def edge_error_note(self) -> str:
        """A warning if the energy is rough, else nothing."""
        return f", +-{self.edge_j:,.3g} J at the edges" if self.is_rough else ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The parts that it covers."""
        return self.scope

    @property
    def containers(self) -> tuple[str, ...]:
        """The parts that contain these."""
        return self.within


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """A search for the highest Server rate that keeps the round's bound; its best VALID full run is
    the result.
    """

    invalid_qps: float | None
    """Lowest INVALID rate of a full run above this run's; None if there was none."""
    runs: int
    """Full runs."""
    probes: int
    tolerance: float
    """Relative distance of VALID and INVALID at which the search was to end."""


OPAQUE_FORM: Final = "opaque"
TENSORS_FORM: Final = "tensors"
PROMPTS_FORM: Final = "prompts"
"""Forms of requests over a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRecord:
    """The network between LoadGen and the system under test."""

    endpoints: tuple[str, ...]
    servers: tuple[str, ...]
    """What answers at each endpoint: builtin, triton, or the name that another server gives itself.
    """
    nodes: tuple[str, ...]
    """Host name of each server."""
    machines: tuple[str, ...]
    """One word for each server's running kernel: two servers on one machine have the same; empty if
    the server does not tell.
    """
    loadgen_machine: str
    """The same of LoadGen's machine."""
    loopback: bool
    """An endpoint's address never leaves LoadGen's machine."""
    form: str
    """opaque: payloads, answered by podium's predictor; tensors: another server's own model;
    prompts: an OpenAI-compatible API.
    """
    model: str
    round_trip_p50_ns: tuple[int, ...]
    """Of 100 empty calls before the run, for each endpoint; over HTTP of opened connections."""
    round_trip_p99_ns: tuple[int, ...]
    bytes_out: int
    """Of all requests, without HTTP/2 and TLS."""
    bytes_in: int
    """Of all answers, likewise."""
    api: str = ""
    """Of form `prompts`: chat or completions; "" of the others, which leave all that follows."""
    targets: tuple[str, ...] = ()
    """Where the requests of each endpoint went."""
    tokenizer: str = ""
    """SHA-256 of the tokenizer's file that answers were counted with."""
    in_flight: int = 0
    """Most requests without an answer, over all endpoints."""
    connections: int = 0
    """Open when the run began."""
    streamed: bool | None = None
    """Answers came token by token; without, no first token was seen, and its time is 0 in
    `tokens.npy`.
    """
    tokens_logged: int = 0
    """Of all answers, as LoadGen was told: by the servers' `usage`, or counted if there is none."""
    tokens_recounted: int = 0
    """Of all answers, by the tokenizer; with the token that ends an answer, if the model ended
    it.
    """
    answers_differing: int = 0
    """Answers whose logged number of tokens, or whose first one, is not that of their text."""
    answers_in_one_read: int | None = None
    """Streamed answers of several tokens, all of which came in one read of the connection, so that
    no time per token is known of them; None if answers were not streamed, and in older records.
    """
    server: Mapping[str, str] | None = None
    """What podium's servers say of themselves; None of others."""

    @property
    def states_what_it_serves(self) -> bool:
        """Return whether the servers name their checkpoint: podium's do."""
        return self.form == OPAQUE_FORM or self.server is not None

    @property
    def is_on_other_machines(self) -> bool:
        """Return whether all servers are known to run on other machines than LoadGen."""
        return (
            not self.loopback
            and all(self.machines)
            and bool(self.loadgen_machine)
            and self.loadgen_machine not in self.machines
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """What one of several instances of a system under test answered."""

    device: str = ""
    """The device that it ran on; empty where the run names one alone, and in older records."""
    cores: tuple[int, ...]
    """The cores that it was pinned to; empty if it was not, since others used them."""
    batches: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """`run.json` in the folder of a LoadGen run: stamps, settings, verdict."""

    workload: str
    round: str
    profile: str
    division: str
    org: str
    system: str
    scenario: str
    """SingleStream, MultiStream, Server, Offline."""
    mode: str
    """accuracy or performance."""
    framework: str
    engine: str
    input: str
    device: str
    precision: str
    threads: int
    nonce: str
    checkpoint_sha256: str
    sample_count: int
    """Size of the accuracy set."""
    settings: Mapping[str, HyperValue]
    command: tuple[str, ...]
    verdict: str
    """LoadGen's verdict: VALID or INVALID; ACCURACY for an accuracy run."""
    metric: str
    """A metric of suite.loadgen.headline, or the metric's name of an accuracy run."""
    value: float
    ceiling: float | None
    """What this host reaches with a null engine, or a null generator: tokens per second where the
    value is in tokens, else samples (queries, for Server); None if it was not measured.
    """
    above_ceiling_share: bool
    """The value is above the share of the ceiling from which the harness affects the measurement.
    """
    batches: Mapping[str, float]
    """Statistics of the workers' batches: count, mean_size; by_length, 1 if Offline's samples were
    sorted by length. A generator's batches are its steps; mean_live is the sequences that were live
    in one, slots how many of them fit, and mean_size the answers that ended with one; older records
    have neither mean_live nor slots.
    """
    hints: tuple[Hint, ...] = field(default_factory=tuple)
    engine_package: str = ""
    """Distribution and version of the engine, and the SHA-256 of its module; empty in older
    records.
    """
    energy: tuple[EnergyRecord, ...] = ()
    """One record per power channel that was read; empty if none was, and in older records."""
    idle: tuple[EnergyRecord, ...] = ()
    """The same of the idle machine, before a command's first run; never subtracted."""
    no_energy: tuple[str, ...] = ()
    """Why a requested or detected channel gave no energy; one sentence each."""
    lost: tuple[str, ...] = ()
    """Which files beside the run were lost, and why: queries.npy, telemetry.jsonl; one sentence
    each.
    """
    searched: SearchRecord | None = None
    """What the search for the peak proved beside this run, the best of it; None if the rate was not
    searched.
    """
    network: NetworkRecord | None = None
    """The network that was between LoadGen and the system under test; None if both were in one
    process.
    """
    instances: tuple[InstanceRecord, ...] = ()
    """The processes that answered, in the order of their numbers; empty if the system ran in
    LoadGen's own.
    """
    loadgen_cores: tuple[int, ...] = ()
    """The cores that LoadGen's process was pinned to; empty if it was not."""
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """`audit.json` in the folder of a compliance test: how it was run, and what its runs came
    to.
    """

    workload: str
    round: str
    profile: str
    system: str
    scenario: str
    nonce: str
    checkpoint_sha256: str
    test: str
    """TEST01, TEST04, TEST05 or TEST06."""
    rules: str
    """The rules that it was run by: a name in suite/audits/rules.toml."""
    settings: Mapping[str, bool | int | float]
    """LoadGen's settings of its runs that differ from those of the result."""
    beside: Mapping[str, bool | int | float]
    """The same of the reference runs."""
    metric: str
    """latency_ns, samples_per_second or completed_samples_per_second."""
    reference: tuple[float, ...]
    """The metric of each reference run, in the order in which they ran."""
    found: tuple[float, ...]
    """The same of the test's runs."""
    ratio: float
    """Best speed of the test as a share of the reference's."""
    lowest: float | None
    highest: float | None
    answers: int
    """Logged answers that were compared with the accuracy run's (TEST01), or whose tokens were
    checked (TEST06); 0 for other tests.
    """
    differing: int
    """Those that differ, or fail a check."""
    repeated: int
    """Runs that LoadGen called INVALID and that were run again."""
    passed: bool
    token_checks: Mapping[str, bool | None] = field(default_factory=dict)
    """TEST06: check -> whether all answers pass it; None if it was skipped."""
    command: tuple[str, ...]
    version: str

    @property
    def within_limits(self) -> bool:
        """Whether the test's speed is within its limits."""
        return (self.lowest or 0.0) <= self.ratio <= (self.highest or math.inf)

    @property
    def answers_agree(self) -> bool:
        """Whether no answer differs; a test of answers needs some."""
        return not self.differing and (self.answers > 0 or self.test not in ANSWER_TESTS)


RARE_RECORD_FIELDS: Final = (
    "origin",
    "searched",
    "lost",
    "network",
    "instances",
    "loadgen_cores",
    "device",
    "call",
    "per_token_j",
    "token_checks",
    "idle",
)
"""Left out where empty: most records have none of them."""


def convert_record_to_json(
    record: CheckpointRecord | RunRecord | AuditRecord | EnergyRecord,
) -> dict[str, object]:
    """Return a record as JSON types, without the fields that most records do not need."""
    return asdict(
        record,
        dict_factory=lambda fields: {
            name: value for name, value in fields if value or name not in RARE_RECORD_FIELDS
        },
    )


def write_record(path: Path, record: CheckpointRecord | RunRecord | AuditRecord) -> None:
    """Write a record as JSON."""
    write_json(path, convert_record_to_json(record))
