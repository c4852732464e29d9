"""Build the result for a path that contains nothing to judge, or whose round is unknown."""

from collections.abc import Iterator
from typing import Final

from compliance.logs.source_file import ParseErrorKind, SourceFile, is_utf16_text
from compliance.recognition.first_record import EVIDENCE_HEAD_BYTES
from compliance.recognition.packed_files import PACKED_ADVICE, describe_packed_files
from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.recognition.renamed_logs import summarise_names
from compliance.recognition.tree_path import is_folder, iterate_published_logs
from compliance.rules import judge_document
from compliance.rules.known_round import UnjudgedPath, known
from compliance.verdict import NO_SUCH_PATH, UNKNOWN_ROUND, Finding
from suite.files.untrusted_files import open_regular_file

SPELLING_ADVICE: Final = "check how PATH is spelt, and the folder that podium was started in."
KINDS_WITHOUT_RESULT: Final = (PathKind.EMPTY, PathKind.DOCUMENT, PathKind.UNKNOWN)


def judge_without_round(target: RecognisedPath, evidence: str) -> Iterator[Finding]:
    """Yield why a path is judged by no round: it cannot be read, shows no round, or, by the
    evidence, an unknown one.
    """
    source = SourceFile(target.path)
    if not is_folder(target.path):
        try:
            with open_regular_file(target.path) as stream:
                if is_utf16_text(stream.read(EVIDENCE_HEAD_BYTES)):
                    source.add_parse_error(ParseErrorKind.ENCODING, "UTF-16 text", "UTF-8 text")
        except (FileNotFoundError, NotADirectoryError):
            source.add_parse_error(
                ParseErrorKind.MISSING, NO_SUCH_PATH, "a PATH that exists", advice=SPELLING_ADVICE
            )
        except (OSError, ValueError) as error:
            source.add_read_error(error)
    yield from judge_document(source, UNKNOWN_ROUND)
    packed = ""
    if target.kind is PathKind.UNKNOWN:
        packed = describe_packed_files(target.path)
    if packed:
        source.add_parse_error(
            ParseErrorKind.UNREADABLE, packed, "unpacked results", advice=PACKED_ADVICE
        )
        yield from judge_document(source, UNKNOWN_ROUND)
    elif not source.parse_errors:
        found, required = evidence, ""
        if not evidence and target.kind in KINDS_WITHOUT_RESULT:
            found, required = describe_empty_target(target)
        elif not evidence:
            found = f"no record in this {target.kind} that shows its round"
        yield from known(UnjudgedPath(path=target.path, evidence=found, required=required))


def describe_empty_target(target: RecognisedPath) -> tuple[str, str]:
    """Return the found and required texts for a path that contains nothing to judge."""
    if target.kind is PathKind.EMPTY:
        return "an empty folder", "results; if a run should have written here, check its output"
    if target.kind is PathKind.DOCUMENT:
        return (
            "an unrecognised JSON file",
            "a LoadGen file, or systems/<system>.json or measurements/... in a results tree",
        )
    if target.kind is PathKind.SET:
        names = [path.name for path in iterate_published_logs(target.path)]
        return f"training logs named {summarise_names(names)}", "result_<i>.txt"
    return (
        "nothing that the judge recognises",
        "a log, set, entry, system, organisation, results tree or bundle",
    )
