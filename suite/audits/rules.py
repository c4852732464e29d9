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
from suite.errors import unknown
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow
from suite.rounds.load import build, plain

Knobs = Mapping[str, bool | int | float]
"""LoadGen's name of a setting -> its value."""


class Measure(StrEnum):
    """The figure of a run that is compared."""

    MEDIAN = "median"
    """Median latency of a query; Offline, which has one query, samples per second."""
    HEADLINE = "headline"
    """The scenario's own metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One test."""

    settings: Knobs
    """Settings of its runs, beside those of the result."""
    beside: Knobs = field(default_factory=dict)
    """Settings of the run that it is compared with; none: an ordinary performance run."""
    scenarios: Mapping[Scenario, Knobs] = field(default_factory=dict)
    """Further settings by scenario."""
    benchmarks: Mapping[str, Knobs] = field(default_factory=dict)
    """Further settings by the benchmark's name in inference."""
    turns: int | None = None
    """Turns at least, where that is not the rules' own number."""
    drawn: tuple[str, ...] = ()
    """Seeds that are drawn from the campaign's nonce and the checkpoint."""
    lowest: float | None = None
    """Least share of the other run's speed; None: any."""
    highest: float | None = None
    """Largest share; None: any."""
    short_lowest: float | None = None
    short_highest: float | None = None
    """The same for short latencies; None: as above."""

    def least_turns(self, rules: "Rules") -> int:
        """Return the turns that the test needs at least."""
        return rules.turns if self.turns is None else self.turns

    def knobs(
        self,
        test: AuditTest,
        scenario: Scenario,
        benchmark: str,
        nonce: str,
        checkpoint_sha256: str,
    ) -> dict[str, bool | int | float]:
        """Return LoadGen's settings of the test's runs."""
        drawn = {
            name: seed(nonce, checkpoint_sha256, test, place)
            for place, name in enumerate(self.drawn)
        }
        return {
            **self.settings,
            **self.scenarios.get(scenario, {}),
            **self.benchmarks.get(benchmark, {}),
            **drawn,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the runs of tests and their reference runs have to prove, where that is less than a
    result has to.
    """

    percentile: float
    min_queries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The tests of one round."""

    title: str
    measure: Measure
    turns: int
    """Turns of a reference run and a test's run at least."""
    most_turns: int
    """Turns after which speed decides."""
    short_ns: int = 0
    """SingleStream latencies up to this one are short."""
    proof: Mapping[Scenario, Proof] = field(default_factory=dict)
    """Of scenarios whose results need more queries than the compared figure does."""
    tests: Mapping[AuditTest, AuditRow]

    def conditions(self, scenario: Scenario, row: ScenarioRow) -> ScenarioRow:
        """Return the conditions of the runs: those of a result, or what they have to prove where
        that is less.
        """
        proof = self.proof.get(scenario)
        fewer = proof is not None and proof.min_queries < row.min_queries
        return (
            replace(row, percentile=proof.percentile, min_queries=proof.min_queries)
            if proof and fewer
            else row
        )


@cache
def all_rules() -> Mapping[str, Rules]:
    """Read the rules by name."""
    tables = tomllib.loads(files("suite.audits").joinpath("rules.toml").read_text("utf-8"))
    built: Mapping[str, Rules] = build(Mapping[str, Rules], plain(tables, "", {}), "")
    return built


def rules_of(name: str) -> Rules:
    """Return the rules of that name; RequestError names the nearest."""
    if name not in all_rules():
        raise unknown("rules", name, all_rules())
    return all_rules()[name]


def seed(nonce: str, checkpoint_sha256: str, test: str, place: int) -> int:
    """Draw a seed that nobody can prepare: 63 bits of SHA-256, since LoadGen's detail log prints
    seeds through a signed type in some versions.
    """
    digest = hashlib.sha256(f"{nonce}{checkpoint_sha256}{test}{place}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def audit_config(knobs: Knobs) -> str:
    """Write settings in the form of MLCommons' audit.config, for other harnesses: LoadGen reads a
    probability in hundredths.
    """
    lines = [
        f"*.*.{name} = {round(100 * value) if name == 'accuracy_log_probability' else int(value)}\n"
        for name, value in sorted(knobs.items())
    ]
    return "".join(["*.*.mode = 2\n", *lines])
