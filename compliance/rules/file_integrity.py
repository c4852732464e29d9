"""Integrity of every file: present, readable, well-formed, complete."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compliance.logs.source_file import UTF16_FOUND, ParseError, ParseErrorKind, SourceFile
from compliance.recognition.path_kind import LOADGEN_FILES
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

LENIENT_FILE_ADVICE: Final = (
    "not required if the file is as the run wrote it, since some accepted results have"
    " this; otherwise copy the file again"
)
"""Advice for findings that are only informative."""


EDITED_NUMBER_ADVICE: Final = (
    "copy the file again from its run, or repeat the run: LoadGen writes no such number"
)
"""Advice for a number that is none in a file of a LoadGen run, which does not diverge."""
LOST_CONTENT_DOUBTS: Final = {
    About.SCORE: "the figure, which rests on this file",
    About.QUALITY: "the accuracy, which rests on this file",
    About.RULES: "how it was measured, which this file states",
    About.IDENTITY: "what was measured, which this file states",
}
MAX_EQUAL_ERRORS: Final = 3
"""Parse errors with the same text that are reported one by one."""
CONTENT_DEFECTS: Final = frozenset(
    {
        ParseErrorKind.RECORD,
        ParseErrorKind.SHAPE,
        ParseErrorKind.NUMBER,
        ParseErrorKind.DUPLICATE,
        ParseErrorKind.CUT,
    }
)
"""Defects that may have lost content."""


def is_content_lost(source: SourceFile) -> bool:
    """Return whether a file has a defect that is an error of its own, and hides its content."""
    kinds = (*CONTENT_DEFECTS, ParseErrorKind.UNREADABLE)
    return any(any(group_repeated_errors(source, kind)) for kind in kinds)


def check_parse_errors(source: SourceFile, kind: ParseErrorKind) -> Iterator[Fault]:
    """Yield a file's parse errors of one kind, with the weight and the advice for this kind of
    file; those with the same text, if they are many, once with their number.
    """
    lenient = source.leniency.get(kind)
    advice = None
    if lenient is Severity.INFO:
        advice = LENIENT_FILE_ADVICE
    of_file = None
    if kind in CONTENT_DEFECTS:
        of_file = source.about
    for parse_error, number in group_repeated_errors(source, kind):
        about = parse_error.about or of_file
        yield Fault(
            file=source.path,
            line=parse_error.line,
            found=parse_error.found + (f" ({number} lines)" if number > 1 else ""),
            required=parse_error.required,
            severity=None if parse_error.about or parse_error.advice else lenient,
            about=about,
            doubt=LOST_CONTENT_DOUBTS[about] if about else "",
            advice=parse_error.advice or advice,
        )


def group_repeated_errors(
    source: SourceFile, kind: ParseErrorKind
) -> Iterator[tuple[ParseError, int]]:
    """Yield a file's parse errors of one kind with the number of lines that each stands for: of
    many with the same text the first, bearing on what any of them does. UTF-16 explains all others
    of its file, and the last one that names it weighs most.
    """
    groups: dict[str, list[ParseError]] = {}
    explained = [each for each in source.parse_errors if each.found.startswith(UTF16_FOUND)]
    for parse_error in explained[-1:] or source.parse_errors:
        if parse_error.kind is kind:
            groups.setdefault(parse_error.found, []).append(parse_error)
    for group in groups.values():
        if len(group) <= MAX_EQUAL_ERRORS and group[0].advice is None:
            yield from ((parse_error, 1) for parse_error in group)
        else:
            about = next((each.about for each in group if each.about), None)
            yield replace(group[0], about=about), source.count_repetitions(group[0])


@rule("file.present", SourceFile)
def present(source: SourceFile) -> Iterator[Fault]:
    """Every file of a result exists.

    Source: mlcommons/policies submission_rules.adoc, Directory structure; house rule for podium's
    own files.
    Advice: copy the missing file from the run's own folder, or repeat the run.
    """
    yield from check_parse_errors(source, ParseErrorKind.MISSING)


@rule("file.readable", SourceFile, About.SCORE, doubt="everything that the file would show")
def readable(source: SourceFile) -> Iterator[Fault]:
    """Each file can be opened and read, and is a regular file.

    Source: house rule: the judge cannot check a file that it cannot read.
    Advice: check permissions and links; pass the file itself, not a folder or a link.
    """
    yield from check_parse_errors(source, ParseErrorKind.UNREADABLE)


@rule("file.encoding", SourceFile)
def encoding(source: SourceFile) -> Iterator[Fault]:
    """A log or document is UTF-8 text without NUL bytes.

    Source: RFC 8259, section 8.1; podium's and LoadGen's writers write UTF-8.
    Advice: copy the file again in binary mode; if an editor saved it in another encoding, put the
    original file here.
    """
    yield from check_parse_errors(source, ParseErrorKind.ENCODING)


@rule("file.record", SourceFile)
def record(source: SourceFile) -> Iterator[Fault]:
    """Every record is well-formed.

    Source: mlcommons/logging, mllog.py and mlp_parser; mlcommons/inference, loadgen/logging.cc.
    Advice: the run did not write a truncated or garbled record: submit the original file, or repeat
    the run.
    """
    yield from check_parse_errors(source, ParseErrorKind.RECORD)


@rule("file.shape", SourceFile)
def shape(source: SourceFile) -> Iterator[Fault]:
    """Every record and document has the fields and types of its schema.

    Source: the schemas in compliance/schemas.
    Advice: compare the file with its schema in the documentation (File formats), and give the field
    the required type.
    """
    yield from check_parse_errors(source, ParseErrorKind.SHAPE)


@rule("file.number", SourceFile)
def number(source: SourceFile) -> Iterator[Fault]:
    """Numbers are finite: JSON has no NaN and no Infinity.

    Source: RFC 8259, section 6; training_rules.adoc v0.7: a quality that is not a number reaches no
    target.
    Advice: change the settings of a training that reaches NaN, for example the learning rate;
    otherwise copy the file again from its run.
    """
    served = source.path.name in LOADGEN_FILES
    for fault in check_parse_errors(source, ParseErrorKind.NUMBER):
        if served:
            yield replace(fault, advice=fault.advice or EDITED_NUMBER_ADVICE)
        else:
            yield fault


@rule("file.duplicate", SourceFile, About.SCORE, doubt="which of the values counts")
def duplicate(source: SourceFile) -> Iterator[Fault]:
    """No name occurs twice in one object or summary, because readers would disagree about which
    value counts.

    Source: RFC 8259, section 4.
    Advice: write each name once; if a tool merged two files, put the original file here.
    """
    yield from check_parse_errors(source, ParseErrorKind.DUPLICATE)


@rule("file.glued", SourceFile)
def glued(source: SourceFile) -> Iterator[Fault]:
    """A log has one record per line, starting in the first column, and no record follows another on
    the same line.

    Source: mlcommons/logging, mllog.py: one line per event; podium writes nothing else into its
    logs.
    Advice: keep other programs' output out of the log (redirect it to a file of its own), and write
    one record per line.
    """
    yield from check_parse_errors(source, ParseErrorKind.GLUED)


@rule("file.cut", SourceFile)
def cut(source: SourceFile) -> Iterator[Fault]:
    """A file is complete: it ends as its writer ends it.

    Source: podium and LoadGen end each log with a newline, accuracy logs with a bracket.
    Advice: the run was interrupted or the copy was truncated: copy it again, or resume the run with
    --resume.
    """
    yield from check_parse_errors(source, ParseErrorKind.CUT)


@rule("file.foreign", SourceFile, severity=Severity.WARNING)
def foreign(source: SourceFile) -> Iterator[Fault]:
    """A log of podium-v1 contains only log records.

    Source: house rule: podium and LoadGen write nothing else into these files.
    Advice: find out which program wrote into the log, and redirect its output elsewhere.
    """
    yield from check_parse_errors(source, ParseErrorKind.FOREIGN)
