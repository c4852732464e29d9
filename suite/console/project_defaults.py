"""Defaults of options, from `[tool.podium.COMMAND]` in the pyproject.toml of the working folder."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from suite import registry
from suite.console.command_table import OWN_COMMANDS
from suite.errors import RequestError, build_unknown_name_error

PROJECT_FILE: Final = Path("pyproject.toml")
TABLE_PATH: Final = "tool.podium"
OWN_TABLE: Final = re.compile(r"^\s*\[\s*tool\s*\.\s*podium\s*[.\]]", re.MULTILINE)


def is_given(name: str) -> bool:
    """Return whether a parameter of the running command was given on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def apply_project_defaults(context: click.Context, name: str, command: click.Command) -> None:
    """Let a command's table give the defaults of its options, and name them on stderr: they may
    change a verdict. RequestError for a file, table or key that cannot be used.
    """
    table = read_command_table(name)
    if not table:
        return
    options = {
        option.opts[-1].removeprefix("--"): option
        for option in command.params
        if isinstance(option, click.Option) and option.expose_value and not option.hidden
    }
    defaults, words = {}, []
    for key, value in table.items():
        if key not in options:
            raise build_unknown_key_error(f"key of [{TABLE_PATH}.{name}]", key, options)
        default = convert_default(name, key, value, options[key])
        defaults[str(options[key].name)] = default
        words.append(f"{key} = {json.dumps(default, ensure_ascii=False)}")
    context.default_map = {name: defaults}
    click.echo(f"podium: {PROJECT_FILE} sets defaults: {', '.join(words)}", err=True)


def read_command_table(name: str) -> Mapping[str, Any]:
    """Return a command's table; empty without one. RequestError for a file that cannot be read, and
    for a table of no command.
    """
    if not PROJECT_FILE.is_file():
        return {}
    from suite.files.untrusted_files import UnreadableError, read_untrusted_file

    try:
        tables = read_untrusted_file(PROJECT_FILE, parse_command_tables)
    except UnreadableError as error:
        raise RequestError(str(error)) from error
    commands = {*OWN_COMMANDS, *registry.map_entry_points(registry.COMMAND_GROUP)}
    for key, value in tables.items():
        if not isinstance(value, Mapping):
            raise RequestError(
                f"{PROJECT_FILE}: {key} stands in [{TABLE_PATH}]; put it into the table of a"
                f" command, such as [{TABLE_PATH}.run]"
            )
        if key not in commands:
            raise build_unknown_key_error(f"command in [{TABLE_PATH}]", key, commands)
    found: Mapping[str, Any] = tables.get(name, {})
    return found


def build_unknown_key_error(kind: str, key: str, known: Iterable[str]) -> RequestError:
    """Return an error for a key that means nothing, with the nearest one."""
    return RequestError(f"{PROJECT_FILE}: {build_unknown_name_error(kind, key, known)}")


def parse_command_tables(content: bytes) -> Mapping[str, Any]:
    """Parse the tables of commands; empty, without a look at the rest, if there are none.
    ValueError for invalid TOML.
    """
    from suite.files.untrusted_files import decode_user_text, parse_toml

    text = decode_user_text(content)
    if not OWN_TABLE.search(text):
        return {}
    found: Mapping[str, Any] = parse_toml(text)["tool"]["podium"]
    return found


def convert_default(
    name: str, key: str, value: object, option: click.Option
) -> bool | str | list[str]:
    """Convert a value to what the command line would hold; RequestError for one of another type."""
    if option.is_flag and isinstance(value, bool):
        return value
    if option.multiple and isinstance(value, list) and all(map(is_word, value)):
        return list(map(str, value))
    if not option.is_flag and not option.multiple and is_word(value):
        return str(value)
    if option.is_flag:
        wanted = "true or false"
    elif option.multiple:
        wanted = "a list of texts or numbers"
    else:
        wanted = "one text or number"
    raise RequestError(f"{PROJECT_FILE}: {key} in [{TABLE_PATH}.{name}] must be {wanted}")


def is_word(value: object) -> bool:
    """Return whether a value is one word of a command line: a text or a number."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)
