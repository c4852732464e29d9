"""The rules of compliance tests as data (rules.toml): what each test asks of LoadGen, and how far
its speed may differ.
"""

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files

from suite.audits.names import AuditTest
from suite.errors import build_unknown_name_error
from suite.loadgen.salting import Salting
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow
from suite.rounds.load import build_typed_value, strip_sources

LoadGenSettings = Mapping[str, bool | int | float]
"""LoadGen's name of a setting -> its value."""


class ComparedMeasure(StrEnum):
    """The figure of a run that is compared."""

    MEDIAN = "median"
    """Median latency of a query; Offline, which has one query, samples per second."""
    HEADLINE = "headline"
    """The scenario's own metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One test."""

    settings: LoadGenSettings
    """Settings of its runs, beside those of the result."""
    beside: LoadGenSettings = field(default_factory=dict)
    """Settings of the run that it is compared with; none: an ordinary performance run."""
    scenarios: Mapping[Scenario, LoadGenSettings] = field(default_factory=dict)
    """Further settings by scenario."""
    benchmarks: Mapping[str, LoadGenSettings] = field(default_factory=dict)
    """Further settings by the benchmark's name in inference."""
    turns: int | None = None
    """Turns at least, where that is not the rules' own number."""
    drawn: tuple[str, ...] = ()
    """Seeds that are drawn from the campaign's nonce and the checkpoint."""
    salted: bool = False
    """Whether prompts are salted: in the test's runs by the request, in the reference runs by the
    sample.
    """
    lowest: float | None = None
    """Least share of the other run's speed; None: any."""
    highest: float | None = None
    """Largest share; None: any."""
    short_lowest: float | None = None
    short_highest: float | None = None
    """The same for short latencies; None: as above."""

    def choose_salting(self, is_reference: bool) -> Salting:
        """Return how the prompts of a run are salted."""
        if not self.salted:
            return Salting.NONE
        return Salting.SAMPLE if is_reference else Salting.REQUEST

    def resolve_min_turns(self, rules: "AuditRules") -> int:
        """Return the turns that the test needs at least."""
        return rules.turns if self.turns is None else self.turns

    def build_loadgen_settings(
        self,
        test: AuditTest,
        scenario: Scenario,
        benchmark: str,
        nonce: str,
        checkpoint_sha256: str,
    ) -> dict[str, bool | int | float]:
        """Return LoadGen's settings of the test's runs."""
        drawn = {
            name: compute_audit_seed(nonce, checkpoint_sha256, test, position)
            for position, name in enumerate(self.drawn)
        }
        return {
            **self.settings,
            **self.scenarios.get(scenario, {}),
            **self.benchmarks.get(benchmark, {}),
            **drawn,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofMinimums:
    """What the runs of tests and their reference runs have to prove, where that is less than a
    result has to.
    """

    percentile: float
    min_queries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRules:
    """The tests of one round."""

    title: str
    measure: ComparedMeasure
    turns: int
    """Turns of a reference run and a test's run at least."""
    most_turns: int
    """Turns after which speed decides."""
    server_rate_share: float = 1.0
    """Share of a Server result's rate at which its tests and their reference runs are issued."""
    short_ns: int = 0
    """SingleStream latencies up to this one are short."""
    proof: Mapping[Scenario, ProofMinimums] = field(default_factory=dict)
    """Of scenarios whose results need more queries than the compared figure does."""
    tests: Mapping[AuditTest, AuditRow]

    def resolve_run_conditions(self, scenario: Scenario, row: ScenarioRow) -> ScenarioRow:
        """Return the conditions of the runs: those of a result, or what they have to prove where
        that is less.
        """
        proof = self.proof.get(scenario)
        fewer = proof is not None and proof.min_queries < row.min_queries
        if proof and fewer:
            return replace(row, percentile=proof.percentile, min_queries=proof.min_queries)
        return row


@cache
def read_audit_rules() -> Mapping[str, AuditRules]:
    """Read the rules by name."""
    tables = tomllib.loads(files("suite.audits").joinpath("rules.toml").read_text("utf-8"))
    built: Mapping[str, AuditRules] = build_typed_value(
        Mapping[str, AuditRules], strip_sources(tables, "", {}), ""
    )
    return built


def require_audit_rules(name: str) -> AuditRules:
    """Return the rules of that name; RequestError names the nearest."""
    if name not in read_audit_rules():
        raise build_unknown_name_error("rules", name, read_audit_rules())
    return read_audit_rules()[name]


def compute_audit_seed(nonce: str, checkpoint_sha256: str, test: str, position: int) -> int:
    """Draw a seed that is unpredictable: 63 bits of SHA-256, since LoadGen's detail log prints
    seeds through a signed type in some versions.
    """
    digest = hashlib.sha256(f"{nonce}{checkpoint_sha256}{test}{position}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def format_audit_config(loadgen_settings: LoadGenSettings) -> str:
    """Write settings in the form of MLCommons' audit.config, for other harnesses: LoadGen reads a
    probability in hundredths.
    """
    lines = [
        f"*.*.{name} = {round(100 * value) if name == 'accuracy_log_probability' else int(value)}\n"
        for name, value in sorted(loadgen_settings.items())
    ]
    return "".join(["*.*.mode = 2\n", *lines])
