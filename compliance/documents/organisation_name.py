"""Match names of organisations: in folders, logs and system descriptions of published rounds."""

import unicodedata
from typing import Final

from suite.files.layout import fold_name

MIN_SHORT_NAME_LETTERS: Final = 4
"""From this many letters on, a name that is a prefix of another counts as its short form; a shorter
prefix could match anything.
"""


def is_organisation_name(name: str, folder: str) -> bool:
    """Return whether a name matches an organisation's folder: ignoring case, spaces and
    punctuation, as a longer form, or by its initials.

    Accepted training and inference results have longer forms (with a legal form such as Inc.) and
    initials. No text of a round forbids them: the rules name the folder `<submitting_organization>`
    and do not specify its spelling.
    """
    one, other = fold_name(name), fold_name(folder)
    longer = min(len(one), len(other)) >= MIN_SHORT_NAME_LETTERS and (
        one.startswith(other) or other.startswith(one)
    )
    initials = fold_name("".join(word[0] for word in name.split() if word[0].isupper()))
    return one == other or longer or (len(other) > 1 and initials.startswith(other))


def mark_code_points(name: str, other: str) -> str:
    """Return a name, with the code points in which it differs from another one that prints alike:
    letters of another script.
    """
    if len(name) != len(other):
        return name
    odd = [
        (letter, lookalike)
        for letter, lookalike in zip(name, other, strict=True)
        if letter != lookalike
    ]
    if not odd or any(find_script(one) == find_script(two) for one, two in odd):
        return name
    codes = " ".join(f"U+{ord(letter):04X}" for letter, _ in odd)
    return f"{name} ({codes})"


def find_script(letter: str) -> str:
    """Return the script of a letter: the first word of its name in Unicode."""
    return unicodedata.name(letter, "").partition(" ")[0]
