"""The file that `podium accept new` writes: a contract with a comment for each term."""

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from submissions.accept.bounded_metrics import (
    BoundedMetric,
    FigureKind,
    list_bounded_metrics,
    parse_contracted_scenario,
)
from submissions.accept.contract import (
    CURRENCY_CODE,
    NONCE_BYTES,
    PER_CONTRACT,
    PER_HOUR,
    PUBLIC_KEY,
    AgreedPrice,
    Clause,
    parse_contract,
    require_open_deadline,
)
from suite import registry
from suite.errors import RequestError, build_unknown_name_error
from suite.files.untrusted_files import UnreadableError, read_untrusted_text
from suite.measurement.intervals import MIN_INTERVAL_RUNS
from suite.rounds.settings import parse_setting_value
from suite.terms import COUNTED_FIELDS, Profile

DEADLINE_DAYS: Final = 30
"""House rule: a month, if the buyer names no deadline."""
BOUND_FORM: Final = re.compile(
    r"\s*(?P<metric>[\w.-]+)\s*(?P<sign>>=|<=|\bat least\b|\bat most\b)"
    r"\s*(?P<bound>[0-9][0-9_.]*(?:[eE][+-]?[0-9]+)?)\s*(?P<unit>\S*)\s*"
)
"""A bound on the command line: `samples_per_second >= 900 samples/s`."""
SIGN_WORDS: Final = {">=": "at least", "<=": "at most"}
PRICE_FORM: Final = re.compile(r"\s*(?P<amount>[0-9.]+)\s*(?P<currency>\S+?)(?:/(?P<per>\w+))?\s*")
"""A price on the command line: `2.50 EUR/hour`, or `9000 EUR` for all of the contract."""
EXAMPLE_BOUND: Final = 1.0
"""Stands in the commented clauses; any number will do there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractDraft:
    """The options of `podium accept new`."""

    workload: str
    scenario: str
    profile: Profile
    runs: int
    confidence: float
    attempts: int
    deadline: datetime | None
    """None: in a month."""
    bounds: tuple[str, ...]
    price: str | None
    buyer: str
    buyer_key: Path
    seller: str
    seller_key: Path | None
    machine: tuple[str, ...]
    assignments: tuple[str, ...]


def build_contract_text(draft: ContractDraft) -> str:
    """Return the file's text, with a new nonce; RequestError for terms that make no sense."""
    metrics = list_bounded_metrics(
        draft.workload, draft.profile, parse_contracted_scenario(draft.scenario)
    )
    clauses = tuple(map(parse_bound, draft.bounds))
    text = "\n".join(iterate_contract_lines(draft, metrics, clauses)) + "\n"
    shown = text
    if not clauses:  # the other terms are checked beside any clause
        first = next(iter(metrics.values()))
        shown += "\n".join(iterate_clause_lines(build_example_clause(first, None)))
    try:
        require_open_deadline(parse_contract(shown.encode()).terms)
    except ValueError as error:
        raise RequestError(str(error)) from error
    return text


def iterate_contract_lines(
    draft: ContractDraft, metrics: Mapping[str, BoundedMetric], clauses: Sequence[Clause]
) -> Iterator[str]:
    """Yield the lines of a contract."""
    deadline = draft.deadline or (datetime.now(UTC) + timedelta(days=DEADLINE_DAYS))
    yield "# A contract of podium accept. Both sides keep this file byte for byte: its SHA-256"
    yield "# (sha256sum) is bound into every run for it, so an edited file fits no run any more."
    yield f"round = {quote_text(registry.load_round().name)}"
    yield f"workload = {quote_text(draft.workload)}"
    yield f"scenario = {quote_text(draft.scenario)}  # of LoadGen, or training"
    yield f"profile = {quote_text(draft.profile)}"
    yield f"# Below {MIN_INTERVAL_RUNS} runs there is no interval, and no bound of speed is shown."
    yield f"runs = {draft.runs}"
    yield "# Of the interval of each clause."
    yield f"confidence = {draft.confidence}"
    yield "# Serving again after a VALID result is one more attempt; a rehearsal is none."
    yield f"attempts = {draft.attempts}"
    yield f"deadline = {deadline.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}"
    yield "# Random: no two contracts share it."
    yield f"nonce = {quote_text(secrets.token_hex(NONCE_BYTES))}"
    yield from iterate_party_lines("buyer", draft.buyer, draft.buyer_key)
    yield from iterate_party_lines("seller", draft.seller, draft.seller_key)
    yield from iterate_price_lines(draft.price)
    yield "\n[machine]  # fields of the system description; empty: any machine"
    yield from map(format_machine_field, draft.machine)
    yield "\n[settings]  # of the workload, where they differ from the profile's"
    yield from map(format_agreed_setting, draft.assignments)
    for clause in clauses:
        yield from iterate_clause_lines(clause)
    if not clauses:
        yield "\n# Give at least one clause; these are the figures that can be bounded:"
        for metric in metrics.values():
            lines = iterate_clause_lines(build_example_clause(metric, draft.price))
            yield from (f"#{line.lstrip()}" for line in lines)


def build_example_clause(metric: BoundedMetric, price: str | None) -> Clause:
    """Return a clause about a metric, with a number that says nothing."""
    unit = next(iter(metric.units))
    if metric.kind is FigureKind.COST:
        unit = parse_price(price).currency if price else "EUR"
    return Clause(metric=metric.name, direction=metric.direction, bound=EXAMPLE_BOUND, unit=unit)


def iterate_clause_lines(clause: Clause) -> Iterator[str]:
    """Yield the lines of a clause."""
    yield "\n[[clause]]"
    yield f"metric = {quote_text(clause.metric)}"
    yield f"direction = {quote_text(clause.direction)}"
    yield f"bound = {clause.bound!r}"
    yield f"unit = {quote_text(clause.unit)}"


def iterate_party_lines(side: str, name: str, key: Path | None) -> Iterator[str]:
    """Yield the lines of a side; RequestError for a file that is no public key."""
    yield f"\n[{side}]"
    yield f"name = {quote_text(name)}"
    if key is not None:
        yield f"key = {quote_text(read_public_key(key))}"
    else:
        yield '# key = "ssh-ed25519 AAAA..."  # if given, the bundle must be signed with it'


def iterate_price_lines(price: str | None) -> Iterator[str]:
    """Yield the lines of the price, as comments if there is none."""
    mark = "" if price else "# "
    agreed = parse_price(price) if price else AgreedPrice(amount=1.0, currency="EUR", per=PER_HOUR)
    yield f"\n{mark}[price]"
    yield f"{mark}amount = {agreed.amount!r}"
    yield f"{mark}currency = {quote_text(agreed.currency)}"
    yield f"{mark}per = {quote_text(agreed.per)}  # or {PER_CONTRACT}; costs need an hour's price"


def parse_bound(text: str) -> Clause:
    """Parse a bound of the command line; RequestError for another form."""
    found = BOUND_FORM.fullmatch(text)
    try:
        if not found:
            raise ValueError
        return Clause(
            metric=found["metric"],
            direction=SIGN_WORDS.get(found["sign"], found["sign"]),
            bound=float(found["bound"]),
            unit=found["unit"] or "1",
        )
    except ValueError as error:
        raise RequestError(
            f"--bound {text!r}: write METRIC >= NUMBER UNIT or METRIC <= NUMBER UNIT, as in"
            " 'samples_per_second >= 900 samples/s'"
        ) from error


def parse_price(text: str) -> AgreedPrice:
    """Parse a price of the command line; RequestError for another form."""
    found = PRICE_FORM.fullmatch(text)
    try:
        if not found or not CURRENCY_CODE.fullmatch(found["currency"]):
            raise ValueError
        per = found["per"] or PER_CONTRACT
        if per not in (PER_HOUR, PER_CONTRACT):
            raise build_unknown_name_error("--price per", per, (PER_HOUR, PER_CONTRACT))
        return AgreedPrice(amount=float(found["amount"]), currency=found["currency"], per=per)
    except ValueError as error:
        raise RequestError(
            f"--price {text!r}: write AMOUNT CURRENCY/{PER_HOUR}, as in '2.50 EUR/{PER_HOUR}', or"
            " AMOUNT CURRENCY for all of the contract"
        ) from error


def read_public_key(path: Path) -> str:
    """Read type and key of a `.pub` file; RequestError for a file that is none."""
    try:
        words = read_untrusted_text(path).split()
    except UnreadableError as error:
        raise RequestError(str(error)) from error
    key = " ".join(words[:2])
    if not PUBLIC_KEY.fullmatch(key):
        raise RequestError(f"{path}: not an SSH public key; give the .pub file")
    return key


def format_machine_field(text: str) -> str:
    """Write FIELD=VALUE as a line of TOML; counts are numbers."""
    name, equals, value = text.partition("=")
    if not equals:
        raise RequestError(f"--machine {text}: write FIELD=VALUE")
    if name in COUNTED_FIELDS and value.isdecimal():
        return f"{name} = {int(value)}"
    return f"{quote_text(name)} = {quote_text(value)}"


def format_agreed_setting(text: str) -> str:
    """Write KEY=VALUE of a setting as a line of TOML."""
    key, equals, value = text.partition("=")
    if not equals:
        raise RequestError(f"--set {text}: write KEY=VALUE")
    parsed = parse_setting_value(value)
    if isinstance(parsed, str):
        parsed = quote_text(parsed)
    return f"{quote_text(key)} = {str(parsed).lower() if isinstance(parsed, bool) else parsed}"


def quote_text(text: str) -> str:
    """Write a text as a basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
