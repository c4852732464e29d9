"""Implement `podium check --config`: check hyperparameters in a TOML or JSON file against a round's
closed division, without importing a framework.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from compliance.rules import load_rules
from compliance.verdict import UNKNOWN_ROUND, About, Fault, Finding, PathJudgement, Severity
from suite import registry
from suite.errors import RequestError
from suite.files import untrusted_files
from suite.files.untrusted_files import (
    MAX_SETTINGS_BYTES,
    UnreadableError,
    parse_toml,
    require_bounded_integers,
)
from suite.rounds import Constraint, HyperValue
from suite.rounds.kind_checks import require_judged_round
from suite.rounds.legality import check_hyperparameter_constraints
from suite.rounds.settings import flatten_settings_table

NON_PARAMETER_KEYS: Final = ("workload", "round")
"""Keys of the file that are not hyperparameters."""
LEGALITY_ADVICE: Final = "choose an allowed value, or submit to the open division"
UNREADABLE_FILE_ADVICE: Final = "use a file with one `name = value` on each line, or a JSON object"
PROBLEM_LINE: Final = re.compile(r"\bline ([1-9][0-9]*)\b")
"""Where Python's parsers of TOML and JSON say that they stopped."""
TOML_TABLE_PATTERN: Final = re.compile(r"\s*\[([^\[\]]+)\]")
TOML_KEY_PATTERN: Final = re.compile(r"\s*([\w.\"'-]+)\s*=")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedDivision:
    """What the closed division allows, for one podium profile or for a published round."""

    constraints: tuple[Constraint, ...]
    required: tuple[str, ...]
    source: str
    profile: str = ""
    """Of podium's round; published rounds have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperparameterFile:
    """A parsed file of hyperparameters."""

    path: Path
    text: str
    table: Mapping[str, Any]
    """Key (dotted if it is inside a table) -> value."""

    def find_text(self, key: str) -> str | None:
        """Return a text in the file: its workload or round."""
        value = self.table.get(key)
        if isinstance(value, str):
            return value
        return None

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the hyperparameters, without the other keys."""
        return {key: value for key, value in self.table.items() if key not in NON_PARAMETER_KEYS}

    def find_line(self, key: str) -> int | None:
        """Find the line on which a key is set; None if that is ambiguous."""
        if is_json_file(self.path, self.text):
            return find_json_line(self.text, key)
        return find_toml_line(self.text, key)


def judge_config(path: Path, workload: str | None, round_name: str | None) -> PathJudgement:
    """Judge a file; an unreadable one is BROKEN. RequestError if it names no workload, or has a key
    that the round does not know.
    """
    if round_name is not None:
        require_judged_round(round_name)  # raise RequestError now, whatever the file contains
    try:
        config = read_hyperparameter_file(path)
    except UnreadableError as error:
        return PathJudgement(
            path=str(path),
            round=round_name or UNKNOWN_ROUND,
            findings=(build_unreadable_file_finding(path, error),),
        )
    name = round_name or config.find_text("round") or registry.DEFAULT_ROUND
    with add_location_to_errors(config, "round", given=round_name is not None):
        check = load_settings_check(name)
        if check is None:
            raise RequestError(
                f"round {name} has no hyperparameters to check; name a round of training"
            )
    named = workload or config.find_text("workload")
    if named is None:
        with add_location_to_errors(config, "workload", given=False):
            raise RequestError(
                "the file names no workload; use --workload or set `workload` in the file"
            )
    with add_location_to_errors(config, "workload", given=workload is not None):
        check.require_workload(name, named)
    findings = check.judge_settings(config, name, named)
    return PathJudgement(path=str(path), round=name, findings=tuple(dict.fromkeys(findings)))


class SettingsCheck(NamedTuple):
    """What a kind of round knows of settings before a run."""

    require_workload: Callable[[str, str], None]
    """Function of (round, workload); RequestError if the round has no closed division for it."""
    judge_settings: Callable[[HyperparameterFile, str, str], Iterable[Finding]]
    """Function of (file, round, workload)."""


def load_settings_check(round_name: str) -> SettingsCheck | None:
    """Load what a round's kind knows of settings; None if it has no hyperparameters."""
    found: SettingsCheck | None = registry.load_kind_part(
        registry.load_round_kind(round_name), "check_settings"
    )
    return found


@contextmanager
def add_location_to_errors(config: HyperparameterFile, key: str, *, given: bool) -> Iterator[None]:
    """Name file and line in a RequestError about a key's value, unless an option gave the value."""
    try:
        yield
    except RequestError as error:
        if given:
            raise
        line = config.find_line(key)
        raise RequestError(f"{config.path}{f':{line}' if line else ''}: {error}") from error


def find_closed_violations(
    config: HyperparameterFile,
    settings: Mapping[str, HyperValue],
    closed: ClosedDivision,
    rule: str,
) -> Iterator[Finding]:
    """Yield a finding for each value that the closed division forbids, and for each required key
    that is missing.
    """
    for violation in check_hyperparameter_constraints(closed.constraints, settings):
        yield build_config_finding(
            config,
            violation.key,
            Severity.ERROR,
            f"{violation.key} {violation.found!r}",
            violation.required,
            closed.source,
            rule,
        )
    for key in closed.required:
        if key not in settings:
            yield build_config_finding(
                config,
                key,
                Severity.ERROR,
                f"{key} is missing",
                f"a value for profile {closed.profile}" if closed.profile else "a value",
                closed.source,
                rule,
            )


def build_config_finding(
    config: HyperparameterFile,
    key: str,
    severity: Severity,
    found: str,
    required: str,
    source: str,
    rule: str,
) -> Finding:
    """Build a finding about a key, at its line."""
    return Finding(
        rule=rule,
        about=About.RULES,
        severity=severity,
        file=str(config.path),
        line=config.find_line(key),
        found=found,
        required=required,
        source=source,
        advice=LEGALITY_ADVICE,
    )


def read_hyperparameter_file(path: Path) -> HyperparameterFile:
    """Read a TOML or JSON file; UnreadableError if it is neither."""
    return untrusted_files.read_untrusted_file(
        path, partial(parse_hyperparameter_file, path), MAX_SETTINGS_BYTES
    )


def parse_hyperparameter_file(path: Path, content: bytes) -> HyperparameterFile:
    """Parse the content of a file; ValueError if it is neither TOML nor JSON."""
    text = untrusted_files.decode_user_text(content)
    return HyperparameterFile(
        path=path,
        text=text,
        table=flatten_settings_table(
            parse_strict_json(text) if is_json_file(path, text) else parse_toml(text)
        ),
    )


def build_unreadable_file_finding(path: Path, error: UnreadableError) -> Finding:
    """Build the finding for an unreadable file, in the words of the file rule, at the line that the
    problem names.
    """
    rule, problem = load_rules()["file.readable"], error.reason
    line = PROBLEM_LINE.search(problem)
    return rule.build_finding(
        Fault(
            file=path,
            line=int(line[1]) if line else None,
            found=problem,
            required="a TOML or JSON file with hyperparameters",
            advice=None if isinstance(error.__cause__, OSError) else UNREADABLE_FILE_ADVICE,
        )
    )


def is_json_file(path: Path, text: str) -> bool:
    """Distinguish JSON from TOML by the file name, else by the first character."""
    return path.suffix.casefold() == ".json" or (
        path.suffix.casefold() != ".toml" and text.lstrip().startswith("{")
    )


def parse_strict_json(text: str) -> dict[str, Any]:
    """Parse a JSON object; ValueError for a repeated key or a non-finite number."""

    def build_unique_table(items: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(items)
        if len(table) < len(items):
            twice = next(
                name for name, count in Counter(name for name, _ in items).items() if count > 1
            )
            raise ValueError(f"the key '{twice}' occurs twice{describe_second_line(text, twice)}")
        return table

    def reject_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a finite number")

    table = json.loads(text, object_pairs_hook=build_unique_table, parse_constant=reject_constant)
    if not isinstance(table, dict):
        raise ValueError("not an object of hyperparameters")
    return require_bounded_integers(table)


def describe_second_line(text: str, key: str) -> str:
    """Describe on which line of a JSON text a key occurs for the second time; empty if it is
    written with escapes.
    """
    found = [match.start() for match in re.finditer(rf'"{re.escape(key)}"\s*:', text)]
    if len(found) > 1:
        return f" (at line {text.count(chr(10), 0, found[1]) + 1})"
    return ""


def find_json_line(text: str, key: str) -> int | None:
    """Find the line of a dotted key by its last part."""
    match = re.search(rf'"{re.escape(key.rpartition(".")[2])}"\s*:', text)
    if match:
        return text.count("\n", 0, match.start()) + 1
    return None


def find_toml_line(text: str, key: str) -> int | None:
    """Find the line of a key within its table."""
    prefix = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := TOML_TABLE_PATTERN.match(line):
            prefix = f"{header[1].strip()}."
        elif (assigned := TOML_KEY_PATTERN.match(line)) and (prefix + assigned[1]).replace(
            '"', ""
        ).replace("'", "") == key:
            return number
    return None
