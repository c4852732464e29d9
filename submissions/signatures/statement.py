"""The signed content: an in-toto Statement which says that the judge was run on these bytes, with
its findings.

One line of JSON in canonical form. Sources: in-toto Attestation Framework v1 (Statement,
ResourceDescriptor) and its predicate test-result v0.1. No claim of SLSA provenance is made: nothing
was built.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

import compliance
import suite
from compliance.bundle.manifest import Manifest
from compliance.rules import Rule, load_rules
from compliance.verdict import Finding, Severity
from suite import __version__, registry
from suite.errors import JudgedError
from suite.files.untrusted_files import describe_parse_failure, replace_unprintable
from suite.process.installation import DISTRIBUTION_NAME

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://in-toto.io/attestation/test-result/v0.1"
SIGNER_ANNOTATION: Final = "signer"
"""Annotation of the subject that names the claimed signer."""
PASSED, WARNED = "PASSED", "WARNED"
"""The predicate's results for a run without warnings and for one with warnings; a failed run is not
signed.
"""


class ResourceDescriptor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A ResourceDescriptor: a name, and the digests of the named resource."""

    name: str
    digest: Mapping[str, str]
    annotations: Mapping[str, str] = {}


class ResultPredicate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The predicate: the rules that judged a bundle, and which of them had findings."""

    result: str
    configuration: tuple[ResourceDescriptor, ...]
    """The round's files, and podium's code."""
    passed_tests: tuple[str, ...]
    warned_tests: tuple[str, ...]
    failed_tests: tuple[str, ...]


class Statement(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"kind": "_type", "predicate_type": "predicateType"},
):
    """The statement of one signer about one bundle (schema statement.json)."""

    kind: str
    subject: tuple[ResourceDescriptor, ...]
    predicate_type: str
    predicate: ResultPredicate

    @property
    def claimed_signer(self) -> str | None:
        """The claimed signer; None if there is none."""
        return self.subject[0].annotations.get(SIGNER_ANNOTATION)


def build_statement(
    name: str, digest: bytes, manifest: Manifest, findings: Iterable[Finding], claimed: str | None
) -> Statement:
    """State that the judge accepts the bundle with this seal; `claimed` is the claimed signer."""
    warned = {finding.rule for finding in findings if finding.severity is Severity.WARNING}
    rules = [rule.id for rule in iterate_bundle_rules(manifest.round, manifest.workloads)]
    outcome = ResultPredicate(
        result=WARNED if warned else PASSED,
        configuration=(
            *iterate_round_descriptors(manifest.round),
            ResourceDescriptor(
                name=f"{DISTRIBUTION_NAME} {__version__}", digest={"sha256": compute_code_digest()}
            ),
        ),
        passed_tests=tuple(sorted(rule for rule in rules if rule not in warned)),
        warned_tests=tuple(sorted(rule for rule in rules if rule in warned)),
        failed_tests=(),
    )
    if claimed is not None:
        annotations = {SIGNER_ANNOTATION: claimed}
    else:
        annotations = {}
    subject = ResourceDescriptor(
        name=replace_unprintable(name), digest={"sha256": digest.hex()}, annotations=annotations
    )
    return Statement(
        kind=STATEMENT_TYPE, subject=(subject,), predicate_type=PREDICATE_TYPE, predicate=outcome
    )


def encode_statement(statement: Statement) -> bytes:
    """Return the only valid text of a statement: a line of JSON with its newline."""
    return msgspec.json.encode(statement, order="deterministic") + b"\n"


def parse_statement(text: bytes, digest: bytes) -> Statement:
    """Parse a statement about the bundle with this seal; JudgedError if it is invalid, not
    canonical, or about another bundle.
    """
    try:
        found = msgspec.json.decode(text, type=Statement)
    except (ValueError, RecursionError) as error:
        raise JudgedError(
            f"its statement cannot be read: {describe_parse_failure(error)}"
        ) from error
    if (found.kind, found.predicate_type, len(found.subject)) != (
        STATEMENT_TYPE,
        PREDICATE_TYPE,
        1,
    ) or encode_statement(found) != text:
        raise JudgedError("its statement is not in the form that podium writes")
    if found.subject[0].digest != {"sha256": digest.hex()}:
        raise JudgedError(
            "its statement is about another bundle, whose seal is"
            f" {replace_unprintable(found.subject[0].digest.get('sha256', 'not named'))}"
        )
    if found.predicate.result not in (PASSED, WARNED) or found.predicate.failed_tests:
        raise JudgedError("its statement does not say that the judge accepted the bundle")
    return found


def iterate_bundle_rules(round: str, workloads: Iterable[str]) -> Iterator[Rule[Any]]:
    """Yield the rules that judged a bundle of these workloads."""
    for rule in load_rules(registry.load_round_kind(round).name).values():
        if (rule.rounds is None or round in rule.rounds) and rule.workload in (None, *workloads):
            yield rule


def iterate_round_descriptors(round: str) -> Iterator[ResourceDescriptor]:
    """Yield the files of a round, as read, with their SHA-256."""
    texts = registry.collect_round_texts(round)
    for file in registry.list_round_files():
        if file.round == round and file.text in texts:
            name = f"{file.package.replace('.', '/')}/{Path(file.path).name}"
            yield ResourceDescriptor(
                name=name, digest={"sha256": hashlib.sha256(file.text.encode()).hexdigest()}
            )


def compute_code_digest() -> str:
    """Return the SHA-256 of the judge's code: names and contents of the packages `suite` and
    `compliance`, sorted.
    """
    digest = hashlib.sha256()
    for package in (compliance, suite):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(
                f"{folder.name}/{path.relative_to(folder).as_posix()}\0{content}\n".encode()
            )
    return digest.hexdigest()
