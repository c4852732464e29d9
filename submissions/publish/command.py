"""`podium publish`: verifies every bundle, builds the site in a temporary folder, and moves it into
place when complete.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path

import click

from compliance.bundle import trailer
from compliance.recognition.path_kind import PathKind, recognise_path
from compliance.rules import is_published_round
from compliance.verdict import Severity
from submissions.compare.per_unit import parse_figure_request
from submissions.compliance_check import resolve_path_round
from submissions.curves.curve import has_curves, has_only_curves
from submissions.pack.account import list_bundle_ledgers
from submissions.pack.seal import read_bundle_manifest
from submissions.publish import site
from submissions.publish.cards import SiteCards, parse_site_address
from submissions.publish.endpoints import compute_submission_digest, list_curve_runs
from submissions.publish.rows import SIGNED_BY_NOBODY, mark_bundle_rows
from submissions.publish.site import SITE_BUNDLES_FOLDER, SiteEntry
from submissions.publish.site_folder import (
    check_site_target,
    copy_foreign_files,
    link_bundle_into_site,
    move_site_into_place,
    remove_unfinished_site,
    write_site_checksums,
    write_site_files,
)
from submissions.publish.tree_pages import iterate_tree_files, plan_tree_pages
from submissions.publish.trees import TreeOptions, is_site_tree, read_site_trees
from submissions.published_rows import list_published_files, read_published_rows
from submissions.report import build
from submissions.report.document import Part, encode_invisible_characters
from submissions.report.sections.findings import (
    DAMAGED_LABEL,
    FINDING_COLUMNS,
    FINDINGS_SECTION_ID,
    SEVERITY_TITLES,
)
from submissions.report.sections.orientation import list_required_notes
from submissions.report.sections.studies.section import read_study_points
from submissions.result_index import open_results
from submissions.signatures import bundled as bundled_signatures
from submissions.signatures.bundled import build_detached_paths
from submissions.signatures.command import check_files_exist, check_signers_encoding
from submissions.signatures.ssh_keygen import SignatureCheck, SignatureStatus, TrustedSigners
from submissions.tradeoff.figures import explain_missing_points
from suite.errors import JudgedError, RequestError
from suite.files.layout import (
    LEDGER_FOLDER,
    PARTIAL_SUFFIX,
    build_write_error,
)
from suite.files.untrusted_files import replace_unprintable
from suite.ledger.steps import compute_line_sha256, split_ledger_lines
from suite.result import Result


class BundleMode(StrEnum):
    """How the bundles are added to a site."""

    COPY = "copy"
    LINK = "link"
    NONE = "none"


def publish_site(
    paths: Sequence[Path],
    target: Path,
    *,
    title: str,
    published: bool,
    bundles: BundleMode,
    signers: Path | None,
    address: str = "",
    per: str | None = None,
    prices: Path | None = None,
    beside: TreeOptions | None = None,
) -> None:
    """Build a site from bundles and results trees; JudgedError at the end if a bundle was left
    out; the site lists those too.
    """
    if not encode_invisible_characters(title).strip():
        raise RequestError("--title: must not be empty")
    cards = SiteCards(address=parse_site_address(address) if address else "")
    request = parse_figure_request(per, prices)
    check_site_target(target)
    check_files_exist({"--signers": signers})
    check_signers_encoding(signers)
    trees = [path for path in dict.fromkeys(paths) if is_site_tree(path)]
    pages = plan_tree_pages(read_site_trees(trees, beside or TreeOptions()))
    sealed = [path for path in dict.fromkeys(paths) if path not in trees]
    found = collect_site_entries(sealed, TrustedSigners(allowed=signers))
    entries = exclude_shared_campaigns(drop_contained_bundles(drop_repeated_curves(found)))
    workloads = {row.workload for entry in entries for row in entry.rows}
    rows = []
    if published:
        rows = [
            row
            for name in list_published_files()
            for row in read_published_rows(name)
            if row.workload in workloads
        ]
    if bundles is BundleMode.LINK:
        check_linkable_bundles(target, entries)
    site_folder = target.resolve()  # so that `.` has a name, and a link stays one
    partial = site_folder.with_name(site_folder.name + PARTIAL_SUFFIX)
    remove_unfinished_site(partial)
    try:
        notes = list_required_notes(published or bool(pages))
        files = site.iterate_site_files(
            title,
            entries,
            rows,
            bundles is not BundleMode.NONE,
            notes,
            cards,
            request,
            pages,
        )
        write_site_files(partial, chain(files, iterate_tree_files(title, pages, notes)))
        if bundles is not BundleMode.NONE:
            add_bundles_to_site(partial, entries, bundles)
        write_site_checksums(partial)
        copy_foreign_files(site_folder, partial)
        move_site_into_place(partial, site_folder)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise build_write_error(target, error) from error
    click.echo(f"site: {target / 'index.html'}")
    for problem in cards.problems:
        click.echo(f"without some cards: {problem}", err=True)
    good = [entry for entry in entries if not entry.problems]
    if request and (reason := explain_missing_points(site.build_site_tradeoffs(good, request))):
        click.echo(f"without throughput per {request.basis}: {reason}", err=True)
    if left := [
        f"{entry.name}: {'; '.join(entry.problems)}" for entry in entries if entry.problems
    ]:
        raise JudgedError("\n  ".join(["some bundles were left out:", *left]))


def check_linkable_bundles(target: Path, entries: Iterable[SiteEntry]) -> None:
    """Raise RequestError for bundles on another file system, where hard links are impossible."""
    device = target.absolute().parent.stat().st_dev
    for entry in entries:
        if entry.is_bundle and not entry.problems and entry.path.stat().st_dev != device:
            raise RequestError(
                f"--bundles link: {entry.path} is on another file system than {target}; --bundles"
                " copy copies it"
            )


def collect_site_entries(paths: Iterable[Path], signers: TrustedSigners) -> list[SiteEntry]:
    """Read each bundle. Of several valid copies with one seal, keep the first with a trusted
    signer, or else the first.
    """
    judged_entries = mark_copied_runs([read_site_entry(path, signers) for path in paths])
    chosen: dict[str, SiteEntry] = {}
    for _, entry in sorted(judged_entries, key=lambda pair: not pair[0]):
        if not entry.problems:
            chosen.setdefault(entry.digest, entry)
    return [entry for _, entry in judged_entries if entry.problems or entry in chosen.values()]


def mark_copied_runs(judged: Sequence[tuple[bool, SiteEntry]]) -> list[tuple[bool, SiteEntry]]:
    """Mark submissions of several organisations that have the same run as left out, all of them,
    since files do not tell whose it is.
    """
    owners = defaultdict[object, dict[str, str]](dict)
    for entry in (entry for _, entry in judged if not entry.problems):
        for org, key in list_entry_runs(entry):
            owners[key].setdefault(org, entry.name)
    marked = []
    for trusted, entry in judged:
        others = {
            name: None
            for org, key in list_entry_runs(entry)
            for other, name in owners[key].items()
            if other != org
        }
        reason = f"has the same run as {', '.join(others)}, of another organisation"
        if others and not entry.problems:
            entry = replace(entry, rows=(), problems=(reason,))
        marked.append((trusted, entry))
    return marked


def list_entry_runs(entry: SiteEntry) -> list[tuple[str, object]]:
    """List the organisation and a key of each run of an entry's curves."""
    return [(curve.org, key) for curve in entry.curves for key in list_curve_runs(curve)]


def drop_repeated_curves(entries: Sequence[SiteEntry]) -> list[SiteEntry]:
    """Drop each submission whose runs are all in another one that stays, which has more of them or
    comes first, and name both.
    """
    content = {
        id(entry): frozenset(key for _, key in list_entry_runs(entry))
        for entry in entries
        if not entry.problems
    }
    kept = [*entries]
    for entry in reversed(entries):
        runs = content.get(id(entry))
        holder = next(
            (
                each
                for each in kept
                if runs and each is not entry and runs <= content.get(id(each), frozenset())
            ),
            None,
        )
        if holder is not None:
            kept.remove(entry)
            click.echo(
                replace_unprintable(f"{entry.name}: not listed; {holder.name} has all of its runs")
            )
    return kept


def read_site_entry(path: Path, signers: TrustedSigners) -> tuple[bool, SiteEntry]:
    """Read one bundle, submission of curves or study, and whether a trusted signer signed it. One
    that is not valid becomes an entry with the reasons.
    """
    try:
        document, problems, results = build.judge_and_build_report([path], published=False)
    except JudgedError as error:
        return False, SiteEntry(name=path.name, path=path, problems=(str(error),))
    part = document.parts[0]
    signed = verify_readable_signatures(path, signers) if part.seal else []
    studied = is_study_folder(path)
    complete = bool(part.seal) or studied or has_only_curves(path)
    bad = []
    if not complete and part.verdict == DAMAGED_LABEL:
        bad.append(part.summary)
    elif not complete:
        bad.append(describe_unpublishable_path(path))
    bad += [each.sentence for each in signed if each.standing is SignatureStatus.BAD]
    bad += [describe_rejection(part)] if problems and complete and not bad else []
    rows: tuple[Result, ...] = ()
    points = []
    if not bad:
        rows = tuple(mark_bundle_rows(results, part.seal, describe_signers(signed, signers)))
    if studied and not bad:
        points = [replace(each, source=path.name) for each in read_study_points(path, ())]
    trusted = any(each.standing is SignatureStatus.GOOD for each in signed)
    return trusted, SiteEntry(
        name=path.name,
        path=path,
        report=document,
        rows=rows,
        problems=tuple(bad),
        digest=part.seal or (compute_submission_digest(path) if not bad else ""),
        is_study=studied,
        points=tuple(points),
    )


def is_study_folder(path: Path) -> bool:
    """Return whether a path is the folder of one study."""
    return path.is_dir() and recognise_path(path).kind is PathKind.STUDY


def describe_unpublishable_path(path: Path) -> str:
    """Describe why a path is no bundle, no submission of curves and no study, and what to do."""
    if recognise_path(path).kind is PathKind.STUDY:
        return "a part of a study; publish its folder"
    if recognise_path(path).kind is PathKind.ENDPOINTS_RUN:
        return "a run of the Endpoints client; publish a submission that has it as a point"
    if has_curves(path):
        return "curves beside other results; publish the folder of each submission"
    if is_published_round(resolve_path_round(path)):
        return "a part of a results tree; publish the tree, or its organisation's folder"
    return "not a sealed bundle; create one with podium pack"


def describe_rejection(part: Part) -> str:
    """Describe why a bundle or submission is not valid: the verdict with its first error, and where
    to find the others; if there is no error, what the verdict covers.
    """
    tables = [
        table
        for section in part.sections
        if section.id == FINDINGS_SECTION_ID
        for table in section.tables
        if table.columns == FINDING_COLUMNS
    ]
    if not tables or not tables[0].title.startswith(SEVERITY_TITLES[Severity.ERROR]):
        return part.summary
    rule, _, found, required, advice, _ = tables[0].rows[0]
    others = len(tables[0].rows) - 1
    more = f" {others} more error{'s' * (others > 1)}, which podium check lists" if others else ""
    return f"{part.verdict}: {rule}: found {found}; expected {required}; {advice}{more}"


def verify_readable_signatures(bundle: Path, signers: TrustedSigners) -> list[SignatureCheck]:
    """Check each signature of a bundle; return none if the data after its seal is damaged."""
    try:
        return list(
            bundled_signatures.verify_bundle_signatures(
                bundle, trailer.read_bundle_trailer(bundle), signers
            )
        )
    except JudgedError:
        return []


def describe_signers(signed: Sequence[SignatureCheck], signers: TrustedSigners) -> str:
    """Describe who signed: the names of trusted signers, that the bundle is not signed, or that a
    signer is not trusted.
    """
    names = [
        each.signer for each in signed if each.standing is SignatureStatus.GOOD and each.signer
    ]
    if names:
        return ", ".join(dict.fromkeys(names))
    if not signed:
        return SIGNED_BY_NOBODY
    if signers.allowed and all(each.standing is SignatureStatus.UNKNOWN for each in signed):
        return f"a key that is not in {signers.allowed.name}"
    return "signed, not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedCampaign:
    """What a bundle tells of its campaign."""

    results: frozenset[tuple[str, str]]
    """Path and SHA-256 of each sealed file but the ledgers, which grow."""
    steps: frozenset[str]
    """SHA-256 of each line of its ledgers."""
    last_steps: frozenset[str]
    """SHA-256 of the last line of each ledger."""

    def is_held_by(self, other: "SealedCampaign") -> bool:
        """Return whether another bundle has all of these results and ledgers that go on from these,
        with more in one of them.
        """
        return self != other and self.results <= other.results and self.last_steps <= other.steps


def drop_contained_bundles(entries: Sequence[SiteEntry]) -> list[SiteEntry]:
    """Drop each valid bundle that another bundle of its campaign holds, which was packed later, and
    name both.
    """
    sealed = [entry for entry in entries if entry.is_bundle and not entry.problems]
    uses = Counter(nonce for entry in sealed for nonce in set(entry.nonces))
    campaigns = [
        (entry, read_sealed_campaign(entry.path))
        for entry in sealed
        if any(uses[nonce] > 1 for nonce in entry.nonces)
    ]
    kept = [*entries]
    for entry, campaign in campaigns:
        holder = next(
            (
                other
                for other, others in campaigns
                if set(entry.nonces) & set(other.nonces) and campaign.is_held_by(others)
            ),
            None,
        )
        if holder is not None:
            kept.remove(entry)
            click.echo(
                replace_unprintable(
                    f"{entry.name}: not listed; {holder.name} has all of its results and more"
                )
            )
    return kept


def read_sealed_campaign(bundle: Path) -> SealedCampaign:
    """Read the files and the ledgers of an undamaged bundle."""
    files = read_bundle_manifest(bundle).files
    with open_results(bundle) as results:
        ledgers = [
            [compute_line_sha256(line) for line in split_ledger_lines(ledger.read_bytes())]
            for ledger in list_bundle_ledgers(results)
        ]
    return SealedCampaign(
        results=frozenset(
            (name, sealed.sha256)
            for name, sealed in files.items()
            if LEDGER_FOLDER not in Path(name).parts
        ),
        steps=frozenset(chain.from_iterable(ledgers)),
        last_steps=frozenset(ledger[-1] for ledger in ledgers if ledger),
    )


def exclude_shared_campaigns(entries: Sequence[SiteEntry]) -> list[SiteEntry]:
    """Leave out different bundles of one campaign: two seals with one nonce report the same runs
    twice.
    """
    nonces: dict[str, list[str]] = {}
    for entry in entries:
        if not entry.problems:
            for nonce in entry.nonces:
                nonces.setdefault(nonce, []).append(entry.name)
    twice = {name: names for names in nonces.values() if len(names) > 1 for name in names}
    marked = []
    for entry in entries:
        if entry.name in twice and not entry.problems:
            entry = mark_shared_nonce(entry, format_other_names(entry.name, twice[entry.name]))
        marked.append(entry)
    return marked


def mark_shared_nonce(entry: SiteEntry, other_names: str) -> SiteEntry:
    """Mark an entry as left out."""
    return replace(
        entry,
        rows=(),
        problems=(*entry.problems, f"shares its campaign's nonce with {other_names}"),
    )


def format_other_names(name: str, names: Sequence[str]) -> str:
    """Format the other names."""
    return ", ".join(each for each in names if each != name) or "another bundle of the same name"


def add_bundles_to_site(folder: Path, entries: Sequence[SiteEntry], how: BundleMode) -> None:
    """Copy or link the valid bundles, under names made unique by their seals."""
    (folder / SITE_BUNDLES_FOLDER).mkdir()  # with their detached signatures
    for entry in entries:
        if entry.problems or not entry.is_bundle:
            continue
        transfer = link_bundle_into_site if how is BundleMode.LINK else shutil.copyfile
        transfer(entry.path, folder / entry.bundle_path)
        for file, site_file in zip(
            build_detached_paths(entry.path),
            build_detached_paths(folder / entry.bundle_path),
            strict=True,
        ):
            if file.is_file():
                transfer(file, site_file)
