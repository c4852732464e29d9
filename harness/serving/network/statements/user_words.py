"""What the user says of what serves: the table `[served]` of --system-file."""

from pathlib import Path
from typing import Final

from harness.machine.system_description import SERVED_TABLE, read_system_table
from suite.errors import RequestError, build_unknown_name_error
from suite.served_identity import ServedIdentity, Speaker, Statement, state_all

USER_SOURCE: Final = "--system-file"
MAX_WORD_LENGTH: Final = 200
"""House rule: a word stands in tables and headings."""


def read_user_identity(path: Path | None) -> ServedIdentity:
    """Return what the user states; nothing without a file. RequestError for a property that there
    is not, and for a value that is no line of text.
    """
    table = read_system_table(path).get(SERVED_TABLE, {})
    if not isinstance(table, dict):
        raise RequestError(f"--system-file {path}: {SERVED_TABLE}: a table is wanted")
    known = ServedIdentity().list_statements()
    for name, value in table.items():
        if name not in known:
            raise build_unknown_name_error(f"property of [{SERVED_TABLE}]", name, known)
        if not is_word(value):
            raise RequestError(
                f"--system-file {path}: {SERVED_TABLE}.{name}: a line of up to"
                f" {MAX_WORD_LENGTH} printable characters is wanted"
            )
    return state_all(Speaker.USER, USER_SOURCE, **table)


def is_word(value: object) -> bool:
    """Return whether a value can stand in a heading."""
    return (
        isinstance(value, str) and value.isprintable() and 0 < len(value.strip()) <= MAX_WORD_LENGTH
    )


def join_words(server: ServedIdentity, user: ServedIdentity, where: str) -> ServedIdentity:
    """Return what a server states, completed by its user; RequestError where the two state the same
    property differently.
    """
    theirs = user.list_statements()
    for name, said in server.list_statements().items():
        told = theirs[name]
        if said.is_known and told.is_known and not is_same_word(said, told):
            raise RequestError(
                f"--system-file: {SERVED_TABLE}.{name} is {told.value!r}, and {where} states"
                f" {said.value!r} ({said.source}): leave it out"
            )
    return server.complete_with(user)


def is_same_word(one: Statement, other: Statement) -> bool:
    """Return whether two statements are the same but for case; a version may be cut short."""
    mine, others = one.value.casefold(), other.value.casefold()
    return mine.startswith(others) or others.startswith(mine)
