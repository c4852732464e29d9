"""The reader of contracts, which a stranger sends."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fuzzing.reading import Reader
from submissions.accept.contract import format_moment, read_contract, require_open_deadline
from submissions.accept.template import ContractDraft, build_contract_text
from suite.errors import RequestError
from suite.terms import Profile

PUBLIC_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ ops@buyer.example\n"
NONCE_LINE: Final = re.compile(r'(?<=nonce = ")[0-9a-f]+')


def contracts(work: Path) -> Iterator[Reader]:
    """Yield the reader, with a contract about serving and one about training."""
    key = work / "buyer.pub"
    key.write_text(PUBLIC_KEY)
    bounds = {
        "single-stream": ("top1 >= 0.8", "latency_p90 <= 20 ms"),
        "training": ("time_to_train <= 30 minutes",),
    }
    seeds = [write_contract(key, scenario, told) for scenario, told in bounds.items()]
    yield Reader(name="contract", file=work / "contract.toml", seeds=seeds, read=agreed_to)


def write_contract(key: Path, scenario: str, bounds: tuple[str, ...]) -> bytes:
    """Write a contract as `podium accept new` does, but for its nonce: seeds are the same in each
    run.
    """
    draft = ContractDraft(
        workload="resnet50",
        scenario=scenario,
        profile=Profile.SMOKE,
        runs=3,
        confidence=0.95,
        attempts=2,
        deadline=datetime(2099, 1, 1, tzinfo=UTC),
        bounds=bounds,
        price="2.50 EUR/hour",
        buyer="ops@buyer.example",
        buyer_key=key,
        seller="lab@seller.example",
        seller_key=key,
        machine=("number_of_nodes=1", "host_processor_model_name=AMD EPYC"),
        assignments=("data.workers=2",),
    )
    return NONCE_LINE.sub("ab" * 32, build_contract_text(draft)).encode()


def agreed_to(path: Path) -> object:
    """Read a contract, and say what it says."""
    contract = read_contract(path)
    terms = contract.terms
    try:
        require_open_deadline(terms)
    except RequestError as error:
        assert str(error)
    told = [contract.subject, format_moment(terms.deadline)]
    return told + [clause.words for clause in terms.clause], contract.training_runs
