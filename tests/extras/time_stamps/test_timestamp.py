"""`podium timestamp`: requests and replies of a local authority, made by openssl; no test needs a
network.
"""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from offered_packages import hide_extra
from stamping import Authority

from compliance.bundle import trailer
from submissions.pack.seal import inspect_bundle

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
Podium = Callable[..., Result]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def reply(bundle: Path, authority: Authority, podium: Podium) -> Path:
    """What the authority answered to podium's request."""
    query = bundle.with_name("q.tsq")
    assert podium("timestamp", bundle, "--query", query).exit_code == 0
    return authority.reply(query)


@pytest.mark.slow
def test_a_time_stamp_goes_behind_the_seal_and_is_told(
    bundle: Path, authority: Authority, reply: Path, podium: Podium
) -> None:
    outcome = podium("timestamp", bundle, "--reply", reply, "--ca", authority.certificate)
    assert outcome.exit_code == 0 and "UTC, authority" in outcome.stdout
    assert list(inspect_bundle(bundle)) == [] and [
        frame.content for frame in trailer.read_bundle_trailer(bundle).frames
    ] == [reply.read_bytes()]
    answer = podium("verify", bundle, "--ca", authority.certificate, "--require", "timestamped")
    assert (
        answer.exit_code == 0
        and " UTC, authority CN" in answer.stdout
        and "Test authority" in answer.stdout
    )
    again = podium("timestamp", bundle, "--reply", reply, "--ca", authority.certificate)
    assert again.exit_code == 2 and "already" in str(again.exception)


@pytest.mark.slow
def test_openssl_checks_the_stamp_without_podium(
    bundle: Path, authority: Authority, reply: Path
) -> None:
    """What is stamped is the digest that the seal names."""
    seal = trailer.read_bundle_trailer(bundle).digest.hex()
    authority.call(
        "ts", "-verify", "-digest", seal, "-in", str(reply), "-CAfile", str(authority.certificate)
    )


@pytest.mark.slow
def test_a_stamp_of_an_authority_that_nobody_named_is_open_and_of_another_is_wrong(
    bundle: Path, authority: Authority, reply: Path, podium: Podium, tmp_path: Path
) -> None:
    podium("timestamp", bundle, "--reply", reply, "--ca", authority.certificate)
    unnamed = podium("verify", bundle)
    assert unnamed.exit_code == 0 and "use --ca FILE to verify the authority" in unnamed.stdout
    assert podium("verify", bundle, "--require", "timestamped").exit_code == 1
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    wrong = podium("verify", bundle, "--ca", other.certificate)
    assert wrong.exit_code == 1 and "not from an authority in" in wrong.stdout


@pytest.mark.slow
def test_the_stamp_of_another_bundle_is_refused(
    bundle: Path, authority: Authority, tmp_path: Path, podium: Podium
) -> None:
    query = tmp_path / "q.tsq"
    subprocess.run(
        ["openssl", "ts", "-query", "-digest", "ab" * 32, "-sha256", "-cert", "-out", str(query)],
        check=True,
        capture_output=True,
    )
    outcome = podium(
        "timestamp", bundle, "--reply", authority.reply(query), "--ca", authority.certificate
    )
    assert outcome.exit_code == 1 and "for another bundle" in str(outcome.exception)
    assert not trailer.read_bundle_trailer(bundle).frames


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"\x30\x03\x02\x01\x00", b"garbage" * 100])
def test_a_reply_that_is_none_is_refused(
    bundle: Path, authority: Authority, tmp_path: Path, podium: Podium, content: bytes
) -> None:
    (tmp_path / "r.tsr").write_bytes(content)
    outcome = podium(
        "timestamp", bundle, "--reply", tmp_path / "r.tsr", "--ca", authority.certificate
    )
    assert outcome.exit_code == 1 and "does not grant an RFC 3161" in str(outcome.exception)


@pytest.mark.parametrize(
    "options", [[], ["--query", "q", "--reply", __file__, "--ca", __file__], ["--reply", __file__]]
)
def test_half_a_request_is_refused(bundle: Path, podium: Podium, options: Sequence[str]) -> None:
    assert podium("timestamp", bundle, *options).exit_code == 2


@pytest.mark.slow
def test_without_openssl_the_stamp_is_not_checked(
    bundle: Path,
    authority: Authority,
    reply: Path,
    podium: Podium,
    without_programs: Callable[[Sequence[str]], None],
) -> None:
    podium("timestamp", bundle, "--reply", reply, "--ca", authority.certificate)
    without_programs(["openssl"])
    assert podium("timestamp", bundle, "--query", bundle.with_name("new.tsq")).exit_code == 3
    answer = podium("verify", bundle, "--ca", authority.certificate)
    assert (
        answer.exit_code == 0
        and "time stamp not checked: openssl is not installed" in answer.stdout
    )


@pytest.mark.slow
def test_without_a_verifier_the_stamp_is_not_checked(
    bundle: Path, authority: Authority, reply: Path, podium: Podium
) -> None:
    """A podium that comes without this extra claims nothing of the stamp, and keeps the rest."""
    podium("timestamp", bundle, "--reply", reply, "--ca", authority.certificate)
    with hide_extra("time_stamps"):
        answer = podium("verify", bundle, "--ca", authority.certificate)
        assert podium("verify", bundle, "--require", "timestamped").exit_code == 1
    assert answer.exit_code == 0
    assert "time stamp not checked: no verifier of time stamps is installed" in answer.stdout


def lied(reply: bytes, words: str) -> bytes:
    """Put a status text into a reply, which is not signed: SEQUENCE { PKIStatusInfo { status,
    SEQUENCE { UTF8String } }, token }.
    """

    def tagged(tag: int, content: bytes) -> bytes:
        size = len(content)
        length = (
            bytes([size])
            if size < 128
            else bytes([0x80 + (size.bit_length() + 7) // 8])
            + size.to_bytes((size.bit_length() + 7) // 8, "big")
        )
        return bytes([tag]) + length + content

    def opened(text: bytes) -> tuple[bytes, bytes]:
        """Split what a tag holds from what follows it."""
        head = 2 if text[1] < 128 else 2 + text[1] - 128
        size = text[1] if text[1] < 128 else int.from_bytes(text[2:head], "big")
        return text[head : head + size], text[head + size :]

    whole, _ = opened(reply)
    _, token = opened(whole)
    return tagged(
        0x30, tagged(0x30, b"\x02\x01\x00" + tagged(0x30, tagged(0x0C, words.encode()))) + token
    )


@pytest.mark.slow
def test_a_text_around_a_time_stamp_is_not_believed(
    bundle: Path, reply: Path, authority: Authority, podium: Podium
) -> None:
    """openssl prints the status before the signed part, and it may hold lines that look like it."""
    reply.write_bytes(
        lied(
            reply.read_bytes(),
            "ok\nTime stamp: Jan  1 00:00:00 2020 GMT\nTSA: DirName:/CN=The Great Authority",
        )
    )
    text = subprocess.run(
        ["openssl", "ts", "-reply", "-in", reply, "-text"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert text.index("2020 GMT") < text.index("Test authority")
    put = podium("timestamp", bundle, "--reply", reply, "--ca", authority.certificate)
    assert (
        put.exit_code == 0
        and "2020" not in put.output
        and "CN = Test authority" in put.output.replace("CN=", "CN = ")
    )
    told = podium(
        "verify", bundle, "--ca", authority.certificate, "--require", "timestamped"
    ).output
    assert "Great" not in told and "2020" not in told


def test_a_request_is_not_written_over_the_bundle(bundle: Path, podium: Podium) -> None:
    before = bundle.read_bytes()
    refused = podium("timestamp", bundle, "--query", bundle)
    assert (
        refused.exit_code == 2
        and "is one of the inputs" in str(refused.exception)
        and bundle.read_bytes() == before
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", ["sign", "report", "publish"])
def test_a_spoilt_time_stamp_is_no_part_of_a_valid_bundle(
    bundle: Path,
    reply: Path,
    authority: Authority,
    podium: Podium,
    lab: Any,
    tmp_path: Path,
    command: str,
) -> None:
    """As `podium verify` has it: what stands behind the seal is whole, or the file is not as it
    was.
    """
    assert (
        podium("timestamp", bundle, "--reply", reply, "--ca", authority.certificate).exit_code == 0
    )
    content = bundle.read_bytes()
    stamp = reply.read_bytes()
    place = content.rindex(stamp)
    bundle.write_bytes(content[:place] + bytes([stamp[0] ^ 1]) + content[place + 1 :])
    words = {
        "sign": ("--key", lab.key),
        "report": ("-o", tmp_path / "page.html"),
        "publish": ("-o", tmp_path / "site"),
    }[command]
    refused = podium(command, bundle, *words)
    shown = (tmp_path / "page.html").read_text() if command == "report" else str(refused.exception)
    assert refused.exit_code == 1 and "the reply does not grant an RFC 3161 time stamp" in shown
