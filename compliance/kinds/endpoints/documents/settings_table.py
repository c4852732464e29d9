"""Read YAML as nested tables: `config.yaml`, the settings of a run of the Endpoints client, and
`point.yaml`, what is disclosed of a point.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from compliance.logs.source_file import ParseErrorKind, SourceFile
from suite.files.untrusted_files import open_regular_file
from suite.files.untrusted_yaml import MAX_YAML_BYTES, YamlError, parse_untrusted_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsTable:
    """Settings, as nested tables."""

    values: dict[str, Any] = field(default_factory=dict)

    def find_value(self, *path: str) -> Any:
        """Return the value at a path of keys; None if there is none."""
        found: Any = self.values
        for key in path:
            if not isinstance(found, dict):
                return None
            found = found.get(key)
        return found

    def find_number(self, *path: str) -> int | float | None:
        """Return the number at a path of keys; None if there is none."""
        found = self.find_value(*path)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return found
        return None

    def find_count(self, *path: str) -> int | None:
        """Return the whole number at a path of keys; None if there is none."""
        found = self.find_value(*path)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
        return None


def select_tables(value: object) -> Sequence[dict[str, Any]]:
    """Return the tables in a value that should be a list of them."""
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]


def read_settings_table(source: SourceFile) -> SettingsTable | None:
    """Read a table; None with a parse error if that fails."""
    try:
        with open_regular_file(source.path) as stream:
            text = stream.read(MAX_YAML_BYTES + 1)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
        return None
    try:
        values = parse_untrusted_yaml(text)
    except YamlError as error:
        source.add_parse_error(
            ParseErrorKind.RECORD,
            str(error),
            "short, plain YAML without aliases and tags",
            error.line,
        )
        return None
    if not isinstance(values, dict):
        source.add_parse_error(ParseErrorKind.SHAPE, "no settings", "a table of settings", 1)
        return None
    return SettingsTable(values=values)
