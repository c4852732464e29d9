"""Names of organisations: in folders, logs and system descriptions of published rounds."""

from typing import Final

from suite.files.layout import fold

SHORTEST: Final = 4
"""Letters from which on one name that begins with another is a longer form of it; a shorter one may begin anybody's."""


def same_name(told: str, folder: str) -> bool:
    """Return whether a name is that of an organisation's folder: but for case, spaces and punctuation, in a longer form, or by its initials.

    Accepted results of both halves have longer forms (a legal form such as Inc.) and initials. No text of a round rules them out: it names
    the folder `<submitting_organization>` and says nothing of its spelling.
    """
    one, other = fold(told), fold(folder)
    longer = min(len(one), len(other)) >= SHORTEST and (one.startswith(other) or other.startswith(one))
    initials = fold("".join(word[0] for word in told.split() if word[0].isupper()))
    return one == other or longer or (len(other) > 1 and initials.startswith(other))
