"""Check that a result has one file of each role, whatever the round."""

from collections.abc import Iterator

from compliance.documents.role_files import MAX_NAMED_FILES, RoleFiles
from compliance.rules import rule
from compliance.verdict import Fault, Severity


@rule("file.role", RoleFiles, severity=Severity.WARNING)
def role(files: RoleFiles) -> Iterator[Fault]:
    """A result has one summary, and each run one detail log and one summary. Where two files of one
    role differ, the judge reads one, and names the others. A copy of it is no second one.

    Source: house rule: whoever reads the other file reads other figures; none of the 576 folders of
    published runs that this was tried on has a second one.
    Advice: submit the file that the run wrote, and keep others elsewhere.
    """
    for path in files.others[:MAX_NAMED_FILES]:
        yield files.build_fault(
            f"a second {files.role}, which differs from {files.read.name}",
            f"one {files.role}; {files.read.name} was read",
            file=path,
        )
