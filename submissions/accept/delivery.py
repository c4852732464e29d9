"""What a seller delivers: an undamaged bundle, with what it says of a contract."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compliance.bundle import trailer
from compliance.bundle.manifest import Manifest
from compliance.bundle.trailer import BundleTrailer
from compliance.kinds.podium.results import log_values
from compliance.results.indexed_result import IndexedResult
from submissions import compliance_check
from submissions.accept.contract import AcceptanceContract
from submissions.accept.ledger_attempts import ContractTry, collect_tries
from submissions.campaign.requested_options import convert_to_json_types
from submissions.compare.compared_results import read_compared_result
from submissions.pack.seal import read_bundle_manifest
from submissions.result_index import keep_bundle_unpacked, open_results
from suite.events import SETTINGS
from suite.ledger.book import Ledger
from suite.ledger.contract_challenge import TryKind
from suite.ledger.steps import (
    AttemptKind,
    LedgerStep,
    StepKind,
    parse_ledger,
    split_ledger_lines,
    strip_packed_lines,
)
from suite.result import Result
from suite.rounds import HyperValue


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A bundle whose bytes are whole, opened."""

    contract: AcceptanceContract
    bundle: Path
    wanted: TryKind
    """What the bundle must be of: only the seller looks at rehearsals."""
    manifest: Manifest
    trailer: BundleTrailer
    results: tuple[tuple[IndexedResult, Result], ...]
    """What the contract is about: of its workload, profile, and scenario or training. One, if all
    is well.
    """
    ledger: bytes
    """The ledger of that result; empty without one."""

    @property
    def result(self) -> Result:
        """The one result."""
        return self.results[0][1]

    @cached_property
    def steps(self) -> tuple[LedgerStep, ...]:
        """The steps of the ledger."""
        return tuple(parse_ledger(self.ledger))

    @cached_property
    def tries(self) -> tuple[ContractTry, ...]:
        """The attempts and rehearsals of this contract in the ledger."""
        return tuple(collect_tries(self.steps, self.contract.digest))

    @property
    def begin(self) -> LedgerStep | None:
        """The step that began the campaign of the result."""
        campaign = self.result.made_with.campaign
        return next(
            (
                step
                for step in self.steps
                if step.step is StepKind.BEGIN
                and step.what == AttemptKind.TRAINING
                and step.nonce == campaign
            ),
            None,
        )

    @property
    def made_by(self) -> ContractTry | None:
        """The attempt or rehearsal of this contract that made the result."""
        campaign = self.result.made_with.campaign
        return next((each for each in self.tries if each.nonce == campaign), None)

    @cached_property
    def settings(self) -> Mapping[str, HyperValue]:
        """The settings that the result was measured with."""
        return read_result_settings(self.results[0][0])


@contextmanager
def open_delivery(
    contract: AcceptanceContract, bundle: Path, wanted: TryKind = TryKind.ATTEMPT
) -> Iterator[Delivery]:
    """Open a bundle whose bytes are whole; JudgedError if a result in it cannot be read."""
    with keep_bundle_unpacked(bundle), open_results(bundle) as results:
        judge = compliance_check.choose_shared_judge(results)
        measured = tuple(
            (each, read_compared_result(bundle, each, judge=judge))
            for each in results
            if (each.workload, each.scenario) == (contract.terms.workload, contract.scenario)
        )
        found = tuple(each for each in measured if each[1].profile == contract.terms.profile)
        yield Delivery(
            contract=contract,
            bundle=bundle,
            wanted=wanted,
            manifest=read_bundle_manifest(bundle),
            trailer=trailer.read_bundle_trailer(bundle),
            results=found,
            ledger=read_result_ledger(found[0][0]) if found else b"",
        )


def read_result_ledger(result: IndexedResult) -> bytes:
    """Read the ledger of a result; empty if there is none."""
    return Ledger(
        results=result.results_root,
        organisation_folder=result.known_organisation_folder,
        workload=result.workload,
    ).read_bytes()


def read_delivered_lines(bundle: Path, contract: AcceptanceContract) -> list[bytes]:
    """Read the lines of the ledger in a whole bundle, without those about packing at its end."""
    with open_results(bundle) as results:
        own = [each for each in results if each.workload == contract.terms.workload]
        text = read_result_ledger(own[0]) if own else b""
    return split_ledger_lines(strip_packed_lines(text))


def read_result_settings(result: IndexedResult) -> Mapping[str, HyperValue]:
    """Read the settings of a result's first run; the judge compares those of all its runs."""
    if result.scenario:
        record = log_values.read_loadgen_run_record(result.performance_folders[0])
        return convert_to_json_types(record.settings)
    stamps = log_values.read_training_values(result.training_logs[0]).stamps
    settings = stamps.get(SETTINGS)
    return convert_to_json_types(settings) if isinstance(settings, dict) else {}
