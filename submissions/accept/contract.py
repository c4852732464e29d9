"""The contract: what a buyer asks for, in a TOML file that both sides keep byte for byte."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from submissions.accept.bounded_metrics import (
    COST_UNIT,
    BoundedMetric,
    FigureKind,
    list_bounded_metrics,
    parse_contracted_scenario,
)
from suite import registry
from suite.errors import RequestError, build_unknown_name_error
from suite.files.untrusted_files import (
    MAX_SETTINGS_BYTES,
    UnreadableError,
    decode_user_text,
    parse_toml,
    read_untrusted_file,
    replace_unprintable,
)
from suite.loadgen.scenario import Scenario
from suite.rounds.settings import collect_workload_settings, convert_setting_value
from suite.terms import COUNTED_FIELDS, Profile

NONCE_BYTES: Final = 32
"""Random bytes of a buyer's nonce: the length of a SHA-256."""
NONCE_DIGITS: Final = re.compile(r"[0-9a-f]{64}")
CURRENCY_CODE: Final = re.compile(r"[A-Z]{3}")
"""Alphabetic code of a currency. Source: ISO 4217."""
PUBLIC_KEY: Final = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,3}")
"""Type and key of a line of a `.pub` file. Source: sshd(8), AUTHORIZED_KEYS FILE FORMAT."""
PARTY_NAME: Final = re.compile(r"[^\s,*?!\"]+")
"""A name as files of allowed signers have it. Source: ssh-keygen(1), ALLOWED SIGNERS."""
CONFIDENCE_RANGE: Final = (0.5, 0.999)
"""Least and most confidence. House rule: below one half a bound is met by chance, and above 0.999
the quantiles of few runs grow beyond use.
"""
MAX_ATTEMPTS: Final = 1_000
"""House rule: more attempts than a seller makes; their number has six digits in a challenge."""
MAX_RUNS: Final = 1_000
"""House rule, as for attempts."""
PER_HOUR, PER_CONTRACT = "hour", "contract"
"""What a price is for: an hour of the machine, energy included, or all that the contract buys."""
MACHINE_FIELDS: Final = (
    "system_name",
    "host_processor_model_name",
    "host_memory_capacity",
    "accelerator_model_name",
    "accelerator_memory_capacity",
    *COUNTED_FIELDS,
)
"""Fields of a system description by which a contract can name a machine. Source:
submission_rules.adoc, System description.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """A side of the contract."""

    name: str
    key: str = ""
    """SSH public key: type and key; only a seller may have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedPrice:
    """What the buyer pays."""

    amount: float
    currency: str
    per: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One bound."""

    metric: str
    direction: str
    bound: float
    unit: str

    @property
    def words(self) -> str:
        """The clause for a reader."""
        unit = f" {self.unit}".removesuffix(" 1")
        return f"{self.metric} {self.direction} {self.bound:,.10g}{unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTerms:
    """What a contract's file says."""

    round: str
    workload: str
    scenario: str
    """LoadGen's scenario as on the command line, or `training`."""
    profile: Profile
    runs: int
    """Training runs of a contract about training, else performance runs."""
    confidence: float
    """0-1: of each clause's interval."""
    attempts: int
    """How often the seller may try."""
    deadline: datetime
    nonce: str
    """Random hexadecimal digits of the buyer's."""
    buyer: Party
    seller: Party
    price: AgreedPrice | None = None
    machine: Mapping[str, str | int] = field(default_factory=dict)
    """Fields of the system description -> what they must be; empty: any machine."""
    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    """Settings of the workload that differ from the profile's."""
    clause: tuple[Clause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceContract:
    """A contract whose terms make sense, and the digest that binds runs to it."""

    terms: ContractTerms
    digest: str
    """SHA-256 of the file, in hexadecimal digits."""
    metrics: Mapping[str, BoundedMetric]
    """What this contract can bound, by name."""

    @property
    def scenario(self) -> Scenario | None:
        """None: training."""
        return parse_contracted_scenario(self.terms.scenario)

    @property
    def subject(self) -> str:
        """What is measured, for a reader."""
        terms = self.terms
        return f"{terms.workload}, {terms.scenario}, profile {terms.profile} of {terms.round}"

    @property
    def training_runs(self) -> int | None:
        """Runs to train with; None: as many as the round asks for."""
        return self.terms.runs if self.scenario is None else None


def read_contract(path: Path) -> AcceptanceContract:
    """Read a contract; RequestError in one sentence if it cannot be read or makes no sense."""
    try:
        content = read_untrusted_file(path, bytes, MAX_SETTINGS_BYTES)
        return parse_contract(content)
    except UnreadableError as error:
        raise RequestError(str(error)) from error
    except (RequestError, ValueError) as error:
        raise RequestError(replace_unprintable(f"{path}: {error}")) from error


def parse_contract(content: bytes) -> AcceptanceContract:
    """Parse a contract; ValueError or RequestError for one that makes no sense."""
    terms = convert_contract_table(parse_toml(decode_user_text(content)))
    return AcceptanceContract(
        terms=terms,
        digest=sha256(content).hexdigest(),
        metrics=require_sensible_terms(terms),
    )


def convert_contract_table(table: Mapping[str, Any]) -> ContractTerms:
    """Convert tables to terms; RequestError for an unknown or missing key, ValueError for a value
    of another type.
    """
    check_contract_keys(table, ContractTerms, "the contract")
    for name, kind in (("buyer", Party), ("seller", Party), ("price", AgreedPrice)):
        if isinstance(inner := table.get(name), dict):
            check_contract_keys(inner, kind, f"[{name}]")
    clauses = table.get("clause")
    if isinstance(clauses, list):
        for inner in filter(lambda each: isinstance(each, dict), clauses):
            check_contract_keys(inner, Clause, "[[clause]]")
    try:
        return msgspec.convert(table, ContractTerms, builtin_types=(datetime,))
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace("$.", "")) from error


def check_contract_keys(table: Mapping[str, Any], kind: type, where: str) -> None:
    """RequestError for a key that means nothing, with the nearest one, or for one that is
    missing.
    """
    known = fields(kind)
    for key in table:
        if key not in {each.name for each in known}:
            raise build_unknown_name_error(f"key of {where}", key, [each.name for each in known])
    for each in known:
        is_needed = each.default is MISSING and each.default_factory is MISSING
        if is_needed and each.name not in table:
            raise RequestError(f"{where} lacks {each.name}; podium accept new writes it")


def require_sensible_terms(terms: ContractTerms) -> Mapping[str, BoundedMetric]:
    """Return what the contract can bound; RequestError for terms that cannot be run or judged."""
    round = registry.load_round()
    if terms.round != round.name:
        raise build_unknown_name_error("round", terms.round, [round.name])
    scenario = parse_contracted_scenario(terms.scenario)
    metrics = list_bounded_metrics(terms.workload, terms.profile, scenario)
    check_counts(terms, scenario)
    check_parties(terms)
    check_price(terms.price)
    check_names("field of [machine]", terms.machine, MACHINE_FIELDS)
    known = collect_workload_settings(round, round.benchmark(terms.workload))
    check_names("setting", terms.settings, known)
    for key, value in terms.settings.items():
        convert_setting_value(known[key], key, value)
    if not terms.clause:
        raise RequestError("no [[clause]]; a contract bounds at least one figure")
    for clause in terms.clause:
        check_clause(clause, metrics, terms.price)
    said = [(each.metric, each.direction) for each in terms.clause]
    if repeated := next((each for each in said if said.count(each) > 1), None):
        raise RequestError(f"{' '.join(repeated)} is in two clauses; one of them says nothing")
    return metrics


def check_names(kind: str, given: Mapping[str, object], known: Any) -> None:
    """RequestError for a name that is not known, with the nearest."""
    for name in given:
        if name not in known:
            raise build_unknown_name_error(kind, name, known)


def count_required_runs(terms: ContractTerms, scenario: Scenario | None) -> int:
    """Return the runs that the round asks for."""
    row = registry.load_round().benchmark(terms.workload)
    if scenario is None:
        return row.training[terms.profile].runs
    return row.inference[terms.profile].scenarios[scenario].runs


def check_counts(terms: ContractTerms, scenario: Scenario | None) -> None:
    """RequestError for numbers out of range, and a deadline without an offset from UTC."""
    least, most = CONFIDENCE_RANGE
    if not least <= terms.confidence <= most:
        raise RequestError(f"confidence {terms.confidence:g}; required: {least:g} to {most:g}")
    for name, value, fewest, limit in (
        ("attempts", terms.attempts, 1, MAX_ATTEMPTS),
        ("runs", terms.runs, count_required_runs(terms, scenario), MAX_RUNS),
    ):
        if not fewest <= value <= limit:
            raise RequestError(f"{name} {value}; required: {fewest} to {limit}")
    if terms.deadline.utcoffset() is None:
        raise RequestError(
            f"deadline {terms.deadline.isoformat()} has no offset from UTC; write"
            f" {terms.deadline.isoformat()}Z"
        )
    try:
        format_moment(terms.deadline)
    except OverflowError as error:
        raise RequestError(
            f"deadline {terms.deadline.isoformat()} is outside of the years 1 to 9999 in UTC"
        ) from error
    if not NONCE_DIGITS.fullmatch(terms.nonce):
        raise RequestError(f"nonce: not {2 * NONCE_BYTES} of the hexadecimal digits 0-9 and a-f")


def check_parties(terms: ContractTerms) -> None:
    """RequestError for a name or key that ssh-keygen cannot use."""
    for side, party in (("buyer", terms.buyer), ("seller", terms.seller)):
        if not PARTY_NAME.fullmatch(party.name):
            raise RequestError(
                f"[{side}] name {party.name!r}: give one word without blanks, commas or wildcards,"
                f" as in {side}@example.org"
            )
        if party.key and not PUBLIC_KEY.fullmatch(party.key):
            raise RequestError(
                f"[{side}] key: not an SSH public key; write the first two words of a .pub file"
            )
    if not terms.buyer.key:
        raise RequestError("[buyer] lacks key: the buyer's SSH public key")


def check_price(price: AgreedPrice | None) -> None:
    """RequestError for a price that is none."""
    if price is None:
        return
    if not CURRENCY_CODE.fullmatch(price.currency):
        raise RequestError(
            f'[price] currency "{price.currency}"; required: three capital letters, as in EUR'
        )
    if price.per not in (PER_HOUR, PER_CONTRACT):
        raise build_unknown_name_error("[price] per", price.per, (PER_HOUR, PER_CONTRACT))
    if not 0 < price.amount < float("inf"):
        raise RequestError(f"[price] amount {price.amount:g}; required: a number above 0")


def check_clause(
    clause: Clause, metrics: Mapping[str, BoundedMetric], price: AgreedPrice | None
) -> None:
    """RequestError for a bound of something that is not measured here, in another unit, or in the
    direction that nobody wants.
    """
    if clause.metric not in metrics:
        raise build_unknown_name_error("metric", clause.metric, metrics)
    metric = metrics[clause.metric]
    units = list(metric.units)
    if metric.kind is FigureKind.COST:
        if price is None or price.per != PER_HOUR:
            raise RequestError(f'{metric.name} needs [price] with per = "{PER_HOUR}"')
        units = [price.currency]
    if clause.unit not in units:
        raise RequestError(f'{metric.name} has the unit {" or ".join(units)}, not "{clause.unit}"')
    if clause.direction != metric.direction:
        raise RequestError(
            f'{metric.name} is bounded by "{metric.direction}", not "{clause.direction}"'
        )
    if not 0 < clause.bound < float("inf"):
        raise RequestError(f"bound {clause.bound:g} of {metric.name}; required: a number above 0")


def convert_bound_unit(clause: Clause, metric: BoundedMetric) -> float:
    """Return how many of the result's own units a clause's unit is."""
    return metric.units.get(clause.unit, metric.units.get(COST_UNIT, 1.0))


def require_open_deadline(terms: ContractTerms) -> None:
    """RequestError if the deadline is over by this machine's clock."""
    if terms.deadline <= datetime.now(UTC):
        raise RequestError(f"the deadline {format_moment(terms.deadline)} has passed")


def format_moment(moment: datetime) -> str:
    """Format a time in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def list_setting_words(settings: Mapping[str, bool | int | float | str]) -> tuple[str, ...]:
    """Write settings as --set takes them."""
    return tuple(
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in settings.items()
    )
