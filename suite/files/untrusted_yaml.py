"""Read YAML that somebody else wrote: small, shallow, without aliases, tags or repeated keys."""

from collections.abc import Hashable
from typing import Any, Final

import yaml

from suite.files.untrusted_files import MAX_NESTING_DEPTH

MAX_YAML_BYTES: Final = 1 << 18
"""A configuration takes a few kB; aliases and depth would make a small one take gigabytes."""
MAX_YAML_VALUES: Final = 1 << 14
"""Keys and values in a document: a configuration has a few hundred, and each takes about 3 us."""
MAX_INTEGER_CHARACTERS: Final = 24
MAX_YAML_DEPTH: Final = min(32, MAX_NESTING_DEPTH)


class YamlError(ValueError):
    """Why a YAML text is refused, with its line, counted from 1."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class StrictYamlLoader(yaml.CSafeLoader):
    """Builds plain values, and refuses a key that occurs twice and integers of any size."""

    def construct_bounded_integer(self, node: Any) -> int:
        """Build an integer that any arithmetic and any text can take."""
        if len(node.value) > MAX_INTEGER_CHARACTERS:
            raise YamlError("an integer of too many digits", node.start_mark.line + 1)
        return int(self.construct_yaml_int(node))

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Build one mapping."""
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool):
                raise YamlError("a key that is no plain value", key_node.start_mark.line + 1)
            if key in seen:
                raise YamlError(f"the key '{key}' occurs twice", key_node.start_mark.line + 1)
            seen.add(key)
        return super().construct_mapping(node, deep)


StrictYamlLoader.add_constructor(
    "tag:yaml.org,2002:int", StrictYamlLoader.construct_bounded_integer
)


def parse_untrusted_yaml(text: bytes) -> Any:
    """Return the value of a YAML document; YamlError if it is malformed, or may be hostile."""
    if len(text) > MAX_YAML_BYTES:
        raise YamlError(f"more than {MAX_YAML_BYTES} bytes", 1)
    try:
        refuse_unusual_yaml(text)
        return yaml.load(text, Loader=StrictYamlLoader)  # noqa: S506 - derived from CSafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(str(error.problem), mark.line + 1 if mark else 1) from None
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, YamlError):
            raise
        reason = "a number of too many digits"
        if "digits" not in str(error):
            reason = str(error)
        raise YamlError(reason.split("\n", 1)[0], 1) from None


def refuse_unusual_yaml(text: bytes) -> None:
    """Raise YamlError for an alias, an explicit tag, and a document nested too deep or with too
    many values.
    """
    depth = values = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise YamlError("an alias", line)
        values += isinstance(event, yaml.NodeEvent)
        if values > MAX_YAML_VALUES:
            raise YamlError(f"more than {MAX_YAML_VALUES} keys and values", line)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_YAML_DEPTH:
            raise YamlError(f"nested deeper than {MAX_YAML_DEPTH} levels", line)
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise YamlError(f"the tag {tag}", line)
