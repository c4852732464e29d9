"""Check that the lines of a history are as podium wrote them, and do not contradict each other."""

from collections.abc import Iterator

from compliance.kinds.podium.documents.history import HistoryEntry, HistoryFile
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.history.book import iterate_machine_differences
from suite.history.records import compute_measured_key, has_own_digest


@rule("history.digest", HistoryFile, About.SCORE)
def digest(history: HistoryFile) -> Iterator[Fault]:
    """Each line of a history is as podium wrote it: in its only valid text, with the SHA-256 of its
    other fields. What was edited is not what was measured.

    Source: house rule: suite/history/records.py.
    Advice: restore the line from git, or delete it and add the results again.
    """
    for each in history.entries:
        if not has_own_digest(each.text):
            yield history.build_fault(
                f"digest {each.line.digest[:16]!r}", "that of the line as it stands", each.number
            )
    if not history.entries and not history.source.parse_errors:
        yield history.build_fault("no line", "a line for each result")


@rule("history.machine", HistoryFile, About.IDENTITY)
def machine(history: HistoryFile) -> Iterator[Fault]:
    """One name stands for one machine: all lines of it state the same hardware, as far as they
    state any.

    Source: house rule: results of two machines in one series would be a change.
    Advice: add the results of one of the machines again under another name (--machine).
    """
    for each, first, difference in iterate_machine_differences(history.entries):
        yield history.build_fault(difference, f"as in line {first.number}", each.number)


@rule("history.once", HistoryFile, About.IDENTITY)
def once(history: HistoryFile) -> Iterator[Fault]:
    """A measurement has one line: a second one would be a pair without noise, or of two commits.

    Source: house rule; podium history add leaves out what is there.
    Advice: delete one of both lines: the one of the wrong commit, or either.
    """
    known: dict[str, HistoryEntry] = {}
    for each in history.entries:
        first = known.setdefault(compute_measured_key(each.line), each)
        if first is not each:
            yield history.build_fault(
                f"the measurement of line {first.number}", "another one", each.number
            )


@rule("history.commit", HistoryFile, About.IDENTITY)
def commit(history: HistoryFile) -> Iterator[Fault]:
    """All lines of a commit state the same time for it: the order of a series rests on it.

    Source: house rule; podium history add asks git for it.
    Advice: delete the lines of the commit, and add its results again in its repository.
    """
    known: dict[str, HistoryEntry] = {}
    for each in history.entries:
        first = known.setdefault(each.line.commit, each)
        if first.line.committed != each.line.committed:
            yield history.build_fault(
                f"commit {each.line.commit[:16]} of {each.line.committed}",
                f"{first.line.committed}, as in line {first.number}",
                each.number,
            )
