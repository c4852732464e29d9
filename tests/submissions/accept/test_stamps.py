"""Time stamps behind a bundle for a contract: made before the deadline, after it, by an authority
that the buyer does not trust, of another bundle, and spoilt.
"""

import json
import shutil
from pathlib import Path

import pytest
from contracted_bundles import Parties, call, deliver
from stamping import Authority

from compliance.bundle.trailer import FrameKind, TrailerFrame
from submissions.accept.contract import AcceptanceContract, read_contract
from submissions.accept.refusals import RefusalKind
from submissions.signatures.signing import append_trailer_frame

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
Agreed = tuple[Path, AcceptanceContract]
WORD = "that it ran earlier is the seller's word"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def stamp(bundle: Path, authority: Authority) -> Path:
    """Put the authority's time stamp behind a bundle; return its reply."""
    query = bundle.with_suffix(".tsq")
    call("timestamp", bundle, "--query", query)
    reply = authority.reply(query)
    call("timestamp", bundle, "--reply", reply, "--ca", authority.certificate)
    return reply


@pytest.fixture
def stamped(delivered: Path, authority: Authority, tmp_path: Path) -> Path:
    """The delivered bundle with a time stamp of now."""
    bundle = Path(shutil.copy(delivered, tmp_path / "stamped.tar.zst"))
    stamp(bundle, authority)
    return bundle


def told_time(contract: Path, bundle: Path, *words: object) -> str:
    """What a check says of the time of a bundle that it does not refuse."""
    outcome = call("accept", "check", contract, bundle, "--format", "json", *words)
    told = json.loads(outcome.stdout)
    assert told["refusals"] == [], told
    return str(told["evidence"]["time"])


def test_a_stamp_before_the_deadline_ends_the_sellers_word(
    agreed: Agreed, stamped: Path, authority: Authority
) -> None:
    said = told_time(agreed[0], stamped, "--ca", authority.certificate)
    assert "authority" in said and said.endswith("before the deadline")
    assert "seller's" not in said


def test_a_stamp_after_the_deadline_shows_nothing(
    parties: Parties, authority: Authority, tmp_path: Path
) -> None:
    """The steps are of 2023, and the deadline is a month later; the stamp is of now."""
    path = tmp_path / "c.toml"
    parties.write(path)
    path.write_text(path.read_text().replace("2099-01-01", "2023-12-14"))
    bundle = deliver(read_contract(path), tmp_path, key=parties.key("seller"))
    stamp(bundle, authority)
    said = told_time(path, bundle, "--ca", authority.certificate)
    assert said.endswith(f"after the deadline; {WORD}") and "before the deadline" not in said


def test_a_stamp_of_an_authority_that_the_buyer_does_not_name_shows_nothing(
    agreed: Agreed, stamped: Path, tmp_path: Path
) -> None:
    said = told_time(agreed[0], stamped)
    assert "not verified without --ca; by the seller's clock alone" in said
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    said = told_time(agreed[0], stamped, "--ca", other.certificate)
    assert "not from an authority in" in said and "by the seller's clock alone" in said
    assert "before the deadline" not in said


def test_a_spoilt_stamp_and_one_of_another_bundle_are_refused(
    agreed: Agreed, delivered: Path, authority: Authority, parties: Parties, tmp_path: Path
) -> None:
    """As `podium verify` refuses them, with and without the authority's certificate."""
    other = deliver(agreed[1], tmp_path / "other", number=2, key=parties.key("seller"))
    reply = stamp(other, authority).read_bytes()
    spoilt = bytes([reply[0] ^ 1]) + reply[1:]
    for name, content in (("another", reply), ("spoilt", spoilt)):
        bundle = Path(shutil.copy(delivered, tmp_path / f"{name}.tar.zst"))
        append_trailer_frame(bundle, TrailerFrame(kind=FrameKind.TIME, content=content))
        for words in ((), ("--ca", authority.certificate)):
            outcome = call("accept", "check", agreed[0], bundle, "--format", "json", *words)
            names = {each["name"] for each in json.loads(outcome.stdout)["refusals"]}
            assert outcome.exit_code == 4 and names == {RefusalKind.EDITED}, name
