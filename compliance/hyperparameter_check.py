"""`podium check --config`: checks hyperparameters in a TOML or JSON file against a round's closed
division; imports no framework.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from compliance.rules import catalogue
from compliance.verdict import Fault, Finding, Result, Severity
from suite import registry
from suite.errors import RequestError, unknown
from suite.files import untrusted_files
from suite.files.untrusted_files import SETTINGS_LIMIT, UnreadableError, sized, toml
from suite.rounds import Constraint, HyperValue, RoundKind
from suite.rounds.legality import judge
from suite.rounds.settings import convert, flatten, lookup
from suite.terms import Division

ABOUT: Final = ("workload", "round")
"""Keys of the file that are not hyperparameters."""
RULES: Final = {RoundKind.PODIUM: "training.legality", RoundKind.TRAINING: "log.legality"}
"""Kind of round -> the rule for a log's hyperparameters; the same rule judges the file before the
run.
"""
ADVICE: Final = "choose an allowed value, or submit to the open division"
REWRITE: Final = "give a file with one `name = value` on each line, or a JSON object"
OPTIMIZER: Final = "opt_name"
HEADER: Final = re.compile(r"\s*\[([^\[\]]+)\]")
ASSIGNED: Final = re.compile(r"\s*([\w.\"'-]+)\s*=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What the closed division allows, for one podium profile or for a published round."""

    constraints: tuple[Constraint, ...]
    required: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A parsed file of hyperparameters."""

    path: Path
    text: str
    table: Mapping[str, Any]
    """Key (dotted if it is inside a table) -> value."""

    def about(self, key: str) -> str | None:
        """Return what the file says about itself: its workload or round."""
        value = self.table.get(key)
        return value if isinstance(value, str) else None

    @property
    def parameters(self) -> dict[str, Any]:
        """The hyperparameters, without the other keys."""
        return {key: value for key, value in self.table.items() if key not in ABOUT}

    def line(self, key: str) -> int | None:
        """Find the line on which a key is set; None if that is ambiguous."""
        return (
            line_in_json(self.text, key)
            if is_json(self.path, self.text)
            else line_in_toml(self.text, key)
        )


def judge_config(path: Path, workload: str | None, round_name: str | None) -> Result:
    """Judge a file; an unreadable one is BROKEN. RequestError if it names no workload, or has a key
    that the round does not know.
    """
    if round_name is not None:
        registry.kind_of_round(round_name)  # raise RequestError now, whatever the file contains
    try:
        config = read(path)
    except UnreadableError as error:
        return Result(
            path=str(path),
            round=round_name or registry.DEFAULT_ROUND,
            findings=(unreadable(path, error.reason),),
        )
    name = round_name or config.about("round") or registry.DEFAULT_ROUND
    named = workload or config.about("workload")
    if named is None:
        raise RequestError(
            f"--config {path}: name the workload, with --workload or as `workload` in the file"
        )
    match registry.kind_of_round(name):
        case RoundKind.PODIUM:
            findings = judge_podium(config, name, named)
        case RoundKind.TRAINING:
            findings = judge_published(config, name, named)
        case RoundKind.INFERENCE | RoundKind.SERVED:
            raise RequestError(f"round {name} has no hyper-parameters: it is about inference")
    return Result(path=str(path), round=name, findings=tuple(dict.fromkeys(findings)))


def judge_podium(config: Config, name: str, workload: str) -> Iterator[Finding]:
    """Judge by a podium round's rows; keys and types are checked as in podium train."""
    round = registry.round(name)
    row = round.benchmark(workload)
    known = {**round.settings, **row.settings}
    settings = {
        key: convert(lookup(known, key), key, value) for key, value in config.parameters.items()
    }
    rows = [
        (profile, half)
        for profile, half in row.training.items()
        if half.division is Division.CLOSED
    ]
    if not rows:
        raise RequestError(f"{workload} has no closed division in round {name}")
    for profile, half in rows:
        closed = Closed(
            constraints=half.constraints,
            required=half.required,
            source=round.source(f"{workload}.training.{profile}.constraints"),
        )
        yield from breaches(config, settings, closed, RULES[RoundKind.PODIUM])


def judge_published(config: Config, name: str, workload: str) -> Iterator[Finding]:
    """Judge by a published round's table; a key that the table lacks is reported, since it may be
    misspelt.
    """
    round = registry.published_training(name)
    canonical = round.benchmark(workload)
    if canonical is None:
        raise unknown(f"benchmark of {name}", workload, round.benchmarks)
    settings = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in config.parameters.items()
    }
    required = round.closed_required(canonical, settings.get(OPTIMIZER))
    closed = Closed(
        constraints=round.closed_constraints(canonical) or (),
        required=required,
        source=round.source(f"{canonical}.constraints"),
    )
    yield from breaches(config, settings, closed, RULES[RoundKind.TRAINING])
    known = {*required, *(constraint.key for constraint in closed.constraints)}
    for key in settings.keys() - known:
        found = f"{key}: {unknown('hyper-parameter', key, known)}"
        yield finding(
            config,
            key,
            Severity.WARNING,
            found,
            f"a hyper-parameter of {canonical} in {name}",
            closed.source,
            RULES[RoundKind.TRAINING],
        )


def breaches(
    config: Config, settings: Mapping[str, HyperValue], closed: Closed, rule: str
) -> Iterator[Finding]:
    """Yield a finding for each value that the closed division forbids, and for each required key
    that is missing.
    """
    for breach in judge(closed.constraints, settings):
        yield finding(
            config,
            breach.key,
            Severity.ERROR,
            f"{breach.key} {breach.found!r}",
            breach.required,
            closed.source,
            rule,
        )
    for key in closed.required:
        if key not in settings:
            yield finding(
                config, key, Severity.ERROR, f"{key} is missing", "a value", closed.source, rule
            )


def finding(
    config: Config, key: str, severity: Severity, found: str, required: str, source: str, rule: str
) -> Finding:
    """Build a finding about a key, at its line."""
    return Finding(
        rule=rule,
        severity=severity,
        file=str(config.path),
        line=config.line(key),
        found=found,
        required=required,
        source=source,
        advice=ADVICE,
    )


def read(path: Path) -> Config:
    """Read a TOML or JSON file; UnreadableError if it is neither."""
    return untrusted_files.read(path, partial(parse, path), SETTINGS_LIMIT)


def parse(path: Path, content: bytes) -> Config:
    """Parse the content of a file; ValueError if it is neither TOML nor JSON."""
    text = content.decode()
    return Config(
        path=path,
        text=text,
        table=flatten(strict_json(text) if is_json(path, text) else toml(text)),
    )


def unreadable(path: Path, problem: str) -> Finding:
    """Build the finding for an unreadable file, worded as the file rule does."""
    rule = catalogue()["file.readable"]
    return rule.finding(
        Fault(
            file=path,
            found=problem,
            required="a TOML or JSON file with hyperparameters",
            advice=REWRITE,
        )
    )


def is_json(path: Path, text: str) -> bool:
    """Distinguish JSON from TOML by the file name, else by the first character."""
    return path.suffix.casefold() == ".json" or (
        path.suffix.casefold() != ".toml" and text.lstrip().startswith("{")
    )


def strict_json(text: str) -> dict[str, Any]:
    """Parse a JSON object; ValueError for a repeated key or a non-finite number."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(items)
        if len(table) < len(items):
            twice = next(
                name for name, count in Counter(name for name, _ in items).items() if count > 1
            )
            raise ValueError(f"the key '{twice}' occurs twice")
        return table

    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is no finite number")

    table = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    if not isinstance(table, dict):
        raise ValueError("no object of hyper-parameters")
    return sized(table)


def line_in_json(text: str, key: str) -> int | None:
    """Find the line of a dotted key by its last part."""
    match = re.search(rf'"{re.escape(key.rpartition(".")[2])}"\s*:', text)
    return text.count("\n", 0, match.start()) + 1 if match else None


def line_in_toml(text: str, key: str) -> int | None:
    """Find the line of a key within its table."""
    prefix = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            prefix = f"{header[1].strip()}."
        elif (assigned := ASSIGNED.match(line)) and (prefix + assigned[1]).replace('"', "").replace(
            "'", ""
        ) == key:
            return number
    return None
