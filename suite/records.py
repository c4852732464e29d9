"""The records that podium writes next to logs, one dataclass each; their JSON Schemas are in
compliance/schemas.

Written by the harness, read by the judge and by bundles.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Final

import msgspec

from suite.files.json_files import format_json_document, write_json
from suite.files.layout import GROUPED_RUN_FOLDERS, RUN_RECORD, SYSTEM_RECORD
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.human_numbers import format_whole_digits
from suite.loadgen.salting import Salting
from suite.loadgen.server_counters import Counted, ServerCounters, list_counted_words
from suite.rounds import HyperValue, InferenceRow
from suite.served_identity import NOT_STATED, ServedIdentity, Speaker, state_all

IMPORTED_ORIGIN: Final = "imported from "
"""How the origin of weights that `podium import` took from elsewhere begins."""


def format_imported_origin(source: str, sha256: str) -> str:
    """Format the origin of imported weights, with the hash of the files that they were in."""
    return f"{IMPORTED_ORIGIN}{source}, SHA-256 {sha256}"


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
    """Nonce of the campaign; binds every LoadGen run to this run set."""
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


def is_published_model(row: InferenceRow | None, origin: str) -> bool:
    """Return whether weights of an origin were imported, and a row serves a published model."""
    return row is not None and bool(row.published_weights) and origin.startswith(IMPORTED_ORIGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemUnderTest:
    """`system.json`: what all runs of an entry, a study or a compliance test have in common. Each
    names it by its digest.
    """

    workload: str
    round: str
    profile: str
    division: str
    org: str
    name: str
    """Of the system: host-engine-precision."""
    framework: str
    engine: str
    """As framework, precision and device: `not stated` of a server, if nobody stated it."""
    engine_package: str
    """Distribution and version of the engine, and the SHA-256 of its module; empty if podium does
    not know them.
    """
    input: str
    precision: str
    device: str
    threads: int
    """CPU threads; 0 if nobody stated them."""
    checkpoint_sha256: str
    nonce: str
    settings: Mapping[str, HyperValue]
    """Those of the system; LoadGen's may differ from run to run, and are in `run.json`."""
    sample_count: int
    """Size of the accuracy set."""
    version: str
    """Version of podium."""
    served: ServedIdentity | None = None
    """What servers behind a network run, and who said it; None of a system in LoadGen's own
    process, where podium knows, and in older records.
    """

    @property
    def identity(self) -> ServedIdentity:
        """Return what serves, and who said it."""
        if self.served is not None:
            return self.served
        return state_all(
            Speaker.PODIUM,
            SYSTEM_RECORD,
            engine=self.engine,
            precision=self.precision,
            device=self.device,
            weights=self.checkpoint_sha256,
        )

    def compute_digest(self) -> str:
        """Return the SHA-256 of its file, by which its runs name it."""
        return hashlib.sha256(
            format_json_document(convert_system_to_json(self)).encode()
        ).hexdigest()

    def forget_inventions(self) -> "SystemUnderTest":
        """Return the record without what podium wrote of servers before it asked who says it: the
        engine, the number format and the device that it would have used itself.
        """
        return replace(
            self,
            engine=NOT_STATED,
            framework=NOT_STATED,
            precision=NOT_STATED,
            device=NOT_STATED,
            threads=0,
            served=ServedIdentity(),
        )


SYSTEM_RECORD_DECODER: Final = msgspec.json.Decoder(SystemUnderTest)


def convert_system_to_json(system: SystemUnderTest) -> dict[str, object]:
    """Return a system's record as JSON types, without `served` of one in LoadGen's process."""
    found = asdict(system)
    if system.served is None:
        del found["served"]
    return found


def write_system_record(folder: Path, system: SystemUnderTest) -> None:
    """Write `system.json` into the folder of an entry, a study or a compliance test."""
    write_json(folder / SYSTEM_RECORD, convert_system_to_json(system))


def read_system_record(folder: Path) -> SystemUnderTest:
    """Read `system.json` in a folder; UnreadableError if it is missing or damaged."""
    return read_untrusted_file(folder / SYSTEM_RECORD, SYSTEM_RECORD_DECODER.decode)


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
    """Energy of a run by one power channel or by a sum of parts."""

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
        return f", +-{format_whole_digits(self.edge_j, 3)} J at the edges" if self.is_rough else ""

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
    prompt_tokens: int | None = None
    """Of the prompts of all answers, by the servers' `usage`; None if they state none."""
    cached_tokens: int | None = None
    """Of those, how many the servers had in a cache (`prompt_tokens_details`); None as above."""
    server: Mapping[str, str] | None = None
    """What podium's servers say of themselves; None of others."""
    statements: tuple[Mapping[str, str], ...] = ()
    """What each other server says of itself, by where it was read; empty in older records."""
    salted: Salting = Salting.NONE
    """What began each prompt before its own text: only in compliance tests anything."""
    counters: tuple[ServerCounters, ...] = ()
    """What servers counted before and after the run; empty if none publishes counters, and in older
    records.
    """
    fingerprints: Mapping[str, int] = field(default_factory=dict)
    """The `system_fingerprint` of answers -> how many of them had it; without those that had
    none.
    """

    @property
    def states_what_it_serves(self) -> bool:
        """Return whether the servers name their checkpoint: podium's do."""
        return self.form == OPAQUE_FORM or self.server is not None

    @property
    def counted_words(self) -> list[tuple[str, str, str]]:
        """List what the servers counted themselves: a name, their count or share, and podium's
        count; "" where podium has none.
        """
        own = {
            Counted.GENERATED: self.tokens_logged,
            Counted.PROMPT: self.prompt_tokens,
            Counted.PREFIX_HITS: self.cached_tokens,
        }
        return list_counted_words(self.counters, own)

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
    """`run.json` in the folder of a LoadGen run: what LoadGen's own files do not say."""

    system_sha256: str
    """Digest of the system under test, which is in `system.json`."""
    changed: Mapping[str, HyperValue]
    """LoadGen's settings of this run."""
    command: tuple[str, ...]
    ceiling: float | None
    """What this host reaches with a null engine, or a null generator: tokens per second where the
    value is in tokens, else samples (queries, for Server); None if it was not measured.
    """
    batches: Mapping[str, float]
    """Statistics of the workers' batches: count, mean_size; by_length, 1 if Offline's samples were
    sorted by length. A generator's batches are its steps; mean_live is the sequences that were live
    in one, slots how many of them fit, and mean_size the answers that ended with one.
    """
    telemetry_sha256: str = ""
    """SHA-256 of telemetry.jsonl, whose readings give the run's energy; empty if no power was
    read.
    """
    logprobs_sha256: str = ""
    """SHA-256 of logprobs.npy; empty if the system said nothing of how likely its answers are."""
    reference_logprobs_sha256: str = ""
    """SHA-256 of reference_logprobs.npy; empty if PyTorch computed nothing of them."""
    began_idle: bool = False
    """Whether the readings begin with seconds of the idle machine, before a command's first run."""
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


RUN_RECORD_DECODER: Final = msgspec.json.Decoder(RunRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRun(RunRecord):
    """A LoadGen run as everybody reads it: its own record and that of its system."""

    system: SystemUnderTest

    @property
    def record(self) -> RunRecord:
        """Return its own record alone."""
        return RunRecord(**{each.name: getattr(self, each.name) for each in fields(RunRecord)})

    @property
    def is_of_foreign_server(self) -> bool:
        """Return whether servers answered that are not podium's, which knows of them only what
        somebody states.
        """
        return self.network is not None and not self.network.states_what_it_serves

    @property
    def stated_system(self) -> SystemUnderTest:
        """Return the system's record as it is to be read and shown: of servers only what somebody
        stated.
        """
        if self.is_of_foreign_server and self.system.served is None:
            return self.system.forget_inventions()
        return self.system

    @property
    def settings(self) -> Mapping[str, HyperValue]:
        """Return the settings of the system and of LoadGen."""
        return {**self.system.settings, **self.changed}


def join_served_run(record: RunRecord, system: SystemUnderTest) -> ServedRun:
    """Return a run with the record of its system."""
    own = {each.name: getattr(record, each.name) for each in fields(RunRecord)}
    return ServedRun(**own, system=system)


def locate_system_folder(run: Path) -> Path:
    """Return the folder of the entry, study or compliance test that a LoadGen run belongs to, in
    which its system's record is written.
    """
    return run.parent.parent if run.parent.name in GROUPED_RUN_FOLDERS else run.parent


def find_system_folder(run: Path) -> Path:
    """Return the nearest folder with a system's record: of the run itself, in studies whose runs
    differ in it, or that of what it belongs to.
    """
    # Path.is_file raises if the folder is not searchable
    has_own = os.path.isfile(run / SYSTEM_RECORD)  # noqa: PTH113
    return run if has_own else locate_system_folder(run)


def read_served_run(folder: Path) -> ServedRun:
    """Read the records of a LoadGen run; UnreadableError if one is missing or damaged, or if the
    system is another than the run's.
    """
    served = read_unmatched_run(folder)
    if served.system.compute_digest() != served.system_sha256:
        place = find_system_folder(folder) / SYSTEM_RECORD
        raise UnreadableError(place, "is not the system that the run names")
    return served


def read_unmatched_run(folder: Path) -> ServedRun:
    """Read the records of a LoadGen run, whether or not the run names this system: the judge says
    so; UnreadableError if one is missing or damaged.
    """
    record = read_untrusted_file(folder / RUN_RECORD, RUN_RECORD_DECODER.decode)
    return join_served_run(record, read_system_record(find_system_folder(folder)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """`audit.json` in the folder of a compliance test: how it was run. What its runs came to is
    computed from them (suite/audits/outcome.py).
    """

    system_sha256: str
    """Digest of the system under test, which is in `system.json` beside it."""
    rules: str
    """The rules that it was run by: a name in suite/audits/rules.toml."""
    repeated: int
    """Runs that LoadGen called INVALID and that were run again."""
    command: tuple[str, ...]


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
    "telemetry_sha256",
    "logprobs_sha256",
    "reference_logprobs_sha256",
    "began_idle",
    "statements",
    "fingerprints",
    "counters",
    "salted",
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
