"""`podium verify` about signatures: each way in which one is not good is named, and no bit of it
can change unseen.
"""

import base64
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from compliance.bundle import trailer
from compliance.bundle.seal import SEAL_BYTES
from compliance.bundle.trailer import FrameKind, TrailerFrame
from submissions.pack.bundle import list_packed_bundle_problems, pack_results
from submissions.pack.seal import inspect_bundle
from submissions.signatures import armor, bundled, ssh_keygen, statement
from submissions.signatures.ssh_keygen import SignatureStatus, TrustedSigners
from suite.errors import JudgedError, RequestError

Podium = Callable[..., Result]


def resigned(bundle: Path, content: bytes) -> Path:
    """Put another frame in the signature's place."""
    data = bundle.read_bytes()[: trailer.read_bundle_trailer(bundle).sealed + SEAL_BYTES]
    bundle.write_bytes(
        data + TrailerFrame(kind=FrameKind.SIGNATURE, content=content).encode_frame()
    )
    return bundle


def made_by(key: Path, text: bytes, namespace: str = "podium-bundle") -> bytes:
    """A signature that ssh-keygen made by hand."""
    return subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", namespace],
        input=text,
        capture_output=True,
        check=True,
    ).stdout


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_no_bundle_is_a_wrong_request(tmp_path: Path, podium: Podium, form: str) -> None:
    """A folder of results is whole as it is: "bytes broken" would accuse it."""
    folder = podium("verify", tmp_path, "--format", form)
    assert folder.exit_code == RequestError.exit_code
    assert "is a folder, not a bundle; use podium check" in str(folder.exception)
    missing = podium("verify", tmp_path / "x.tar.zst", "--format", form)
    assert missing.exit_code == JudgedError.exit_code
    assert "no such file; name a bundle" in str(missing.exception)
    assert folder.output + missing.output == ""


def test_an_empty_list_of_signers_trusts_nobody(
    signed: Path, podium: Podium, tmp_path: Path
) -> None:
    """/dev/null is the empty file at hand; it was said not to exist, as was a folder."""
    answer = podium("verify", signed, "--signers", os.devnull)
    assert answer.exit_code == 0, answer.exception
    assert "by a key that is not in /dev/null: ED25519 SHA256:" in answer.stdout
    assert podium("verify", signed, "--signers", os.devnull, "--require", "signed").exit_code == 1
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):  # a pipe gives its content once
        refused = podium("verify", signed, "--signers", path)
        assert f"--signers {path}: not a regular file; name a file" in str(refused.exception)


def test_a_good_signature_is_told_in_a_line_of_its_own(
    signed: Path, lab: Any, podium: Podium
) -> None:
    answer = podium("verify", signed, "--signers", lab.signers(), "--require", "signed")
    assert answer.exit_code == 0
    names = [line.split()[0] for line in answer.stdout.splitlines()]
    assert names == ["bytes", "judge", "ledger", "nonce", "signed", "time", "Not"]
    assert "bytes   whole: " in answer.stdout and "seal sha256:" in answer.stdout
    assert "judge   valid by podium-v1, profile smoke (podium " in answer.stdout
    assert (
        "signed  bench@lab.example, ED25519 SHA256:" in answer.stdout
        and answer.stdout.count("allowed_signers") == 1
    )
    assert "time    the machine's own clock only" in answer.stdout
    assert answer.stdout.endswith(
        "Not shown by any of these checks: that the machine measured what the logs say.\n"
    )


def test_programs_read_a_field_for_each_line(signed: Path, lab: Any, podium: Podium) -> None:
    told = json.loads(
        podium("verify", signed, "--signers", lab.signers(), "--format", "json").stdout
    )
    assert (told["whole"], told["problems"], told["unmet"]) == (True, [], [])
    assert told["bytes"]["state"] == told["judge"]["state"] == told["signed"][0]["state"] == "good"
    assert told["time"] == [{"state": "open", "text": "the machine's own clock only"}]
    assert told["not_shown"].startswith("Not shown")


def test_nobody_signed_and_nobody_asked(bundle: Path, podium: Podium) -> None:
    assert "signed  not signed" in podium("verify", bundle).stdout
    required = podium("verify", bundle, "--require", "signed,timestamped")
    assert (
        required.exit_code == 1 and "required but not shown: signed, timestamped" in required.stdout
    )
    asked = podium("verify", bundle, "--require", "blessed")
    assert asked.exit_code == 2 and "unknown requirement 'blessed'" in str(asked.exception)


@pytest.mark.slow
def test_a_key_that_nobody_knows_is_an_error_only_where_a_signature_is_required(
    signed: Path, lab: Any, podium: Podium
) -> None:
    signers = lab.signers(key="other")
    answer = podium("verify", signed, "--signers", signers)
    assert (
        answer.exit_code == 0
        and f"by a key that is not in {signers}: ED25519 SHA256:" in answer.stdout
    )
    assert podium("verify", signed, "--signers", signers, "--require", "signed").exit_code == 1
    alone = podium("verify", signed)
    assert (
        alone.exit_code == 0
        and (
            "who claims to be bench@lab.example; use --signers FILE to identify the owner of the "
            "key"
        )
        in alone.stdout
    )
    assert podium("verify", signed, "--require", "signed").exit_code == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ('namespaces="git"', 'key is not permitted for use in signature namespace "podium-bundle"'),
        ('valid-before="20200101"', "key has expired"),
        ('valid-after="20990101"', "key is not yet valid"),
    ],
    ids=["namespace", "expired", "not yet"],
)
def test_a_key_that_may_not_sign_bundles_now_is_named(
    signed: Path, lab: Any, podium: Podium, options: str, sentence: str
) -> None:
    answer = podium("verify", signed, "--signers", lab.signers(options))
    assert (
        answer.exit_code == 1 and sentence in answer.stdout and "ED25519 SHA256:" in answer.stdout
    )


@pytest.mark.parametrize("binary", [False, True])
def test_a_revoked_key_is_named(
    signed: Path, lab: Any, tmp_path: Path, podium: Podium, binary: bool
) -> None:
    revoked = tmp_path / "revoked"
    if binary:
        subprocess.run(
            ["ssh-keygen", "-q", "-k", "-f", str(revoked), f"{lab.key}.pub"],
            check=True,
            capture_output=True,
        )
    else:
        shutil.copy(f"{lab.key}.pub", revoked)
    answer = podium("verify", signed, "--signers", lab.signers(), "--revoked", revoked)
    assert answer.exit_code == 1 and "the key was revoked" in answer.stdout
    assert podium("verify", signed, "--revoked", revoked).exit_code == 2


def test_a_signer_who_claims_to_be_another_is_named(bundle: Path, lab: Any, podium: Podium) -> None:
    """A known key does not make every name true."""
    podium("sign", bundle, "--key", lab.key, "--as", "chief@lab.example")
    answer = podium("verify", bundle, "--signers", lab.signers())
    assert (
        answer.exit_code == 1
        and "the key is bench@lab.example's, not chief@lab.example's" in answer.stdout
    )


def test_a_signature_for_something_else_is_refused(signed: Path, lab: Any, podium: Podium) -> None:
    """What somebody signed for git must not pass for a statement about a bundle."""
    (each,) = bundled.iterate_bundle_signatures(signed, trailer.read_bundle_trailer(signed))
    resigned(signed, each.text + made_by(lab.key, each.text, "git"))
    answer = podium("verify", signed, "--signers", lab.signers())
    assert (
        answer.exit_code == 1
        and "its signature is for 'git', not for 'podium-bundle'" in answer.stdout
    )


def test_a_statement_swapped_between_two_bundles_is_named(
    signed: Path, lab: Any, tmp_path: Path, podium: Podium
) -> None:
    other = pack_results(
        Path(__file__).parents[2] / "examples" / "valid" / "checkpoint.record",
        tmp_path / "other.tar.zst",
        systems=["box-torch-bf16"],
    )
    (each,) = bundled.iterate_bundle_signatures(signed, trailer.read_bundle_trailer(signed))
    resigned(other, each.frame_content)
    answer = podium("verify", other, "--signers", lab.signers())
    assert (
        answer.exit_code == 1
        and (
            "about another bundle, whose seal is "
            f"{trailer.read_bundle_trailer(signed).digest.hex()}"
        )
        in answer.stdout
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda text: text.replace(b'"PASSED"', b'"FAILED"').replace(b'"WARNED"', b'"FAILED"'),
            "does not say that the judge accepted",
        ),
        (lambda text: text.replace(b":", b": ", 1), "not in the form that podium writes"),
        (
            lambda text: text.replace(b"test-result/v0.1", b"test-result/v9.9"),
            "not in the form that podium writes",
        ),
        (lambda text: b"{}\n", "statement cannot be read"),
        (lambda text: b"[" * 60_000, "statement cannot be read"),
        (lambda text: b"\xff", "statement cannot be read"),
        (lambda text: b"", "statement cannot be read"),
    ],
    ids=["failed", "spelling", "predicate", "empty", "deep", "bytes", "none"],
)
def test_a_statement_that_says_something_else_is_refused_though_it_was_signed(
    signed: Path, lab: Any, podium: Podium, change: Callable[[bytes], bytes], sentence: str
) -> None:
    (each,) = bundled.iterate_bundle_signatures(signed, trailer.read_bundle_trailer(signed))
    text = change(each.text)
    resigned(signed, text + made_by(lab.key, text))
    answer = podium("verify", signed, "--signers", lab.signers())
    assert answer.exit_code == 1 and sentence in answer.stdout


@pytest.mark.parametrize(
    "tail",
    [
        b"\0",
        b"more",
        TrailerFrame(kind=FrameKind.TIME, content=b"x").encode_frame()[:-1],
        (0x184D2A53).to_bytes(4, "little") + b"\0" * 4,
    ],
)
def test_nothing_else_stands_behind_the_seal(signed: Path, tail: bytes) -> None:
    signed.write_bytes(signed.read_bytes() + tail)
    assert "bytes after the seal" in list_packed_bundle_problems(signed)[0]


def test_seventeen_frames_and_a_large_one_are_refused(bundle: Path) -> None:
    """Behind the seal there is no room for a payload."""
    data = bundle.read_bytes()
    bundle.write_bytes(
        data + TrailerFrame(kind=FrameKind.SIGNATURE, content=b"x").encode_frame() * 17
    )
    assert "more than 16" in list_packed_bundle_problems(bundle)[0]
    bundle.write_bytes(
        data
        + TrailerFrame(kind=FrameKind.SIGNATURE, content=b"x" * ((64 << 10) + 1)).encode_frame()
    )
    assert "bytes after the seal" in list_packed_bundle_problems(bundle)[0]


@pytest.mark.slow
def test_a_flipped_bit_anywhere_behind_the_archive_is_found(signed: Path, lab: Any) -> None:
    """Every byte of seal, frame, statement and signature, one random bit each; the judge is not
    asked again.
    """
    data, sealed = signed.read_bytes(), trailer.read_bundle_trailer(signed).sealed
    signers, draw = TrustedSigners(allowed=lab.signers()), random.Random(19)
    for position in [
        *range(sealed, sealed + 100),
        *draw.sample(range(sealed + 100, len(data)), 300),
    ]:
        other = bytearray(data)
        other[position] ^= 1 << draw.randrange(8)
        signed.write_bytes(other)
        broken = list(inspect_bundle(signed))
        assert broken or [
            each.standing
            for each in bundled.verify_bundle_signatures(
                signed, trailer.read_bundle_trailer(signed), signers
            )
        ] == [SignatureStatus.BAD], position


@given(st.binary(max_size=400))
def test_whatever_stands_for_a_signature_is_read_or_refused(blob: bytes) -> None:
    """No bytes of a stranger end in a traceback, and what is taken has one spelling."""
    for text in (blob, armor.encode_armour(blob), armor.encode_armour(armor.SSHSIG_MAGIC + blob)):
        try:
            assert armor.parse_ssh_signature(text).text == text
        except JudgedError as error:
            assert "signature" in str(error)


@pytest.mark.parametrize(
    "change",
    [lambda blob: blob[:9] + b"\0" + blob[10:], lambda blob: blob + b"\0", lambda blob: blob[:-1]],
    ids=["version", "more", "less"],
)
def test_a_signature_with_other_bytes_is_refused_though_ssh_keygen_may_take_it(
    signed: Path, change: Callable[[bytes], bytes]
) -> None:
    """ssh-keygen takes version 0 for 1: a bit that could flip unseen."""
    (each,) = bundled.iterate_bundle_signatures(signed, trailer.read_bundle_trailer(signed))
    blob = base64.b64decode(b"".join(each.signature.splitlines()[1:-1]))
    with pytest.raises(JudgedError, match="its signature is"):
        armor.parse_ssh_signature(armor.encode_armour(change(blob)))


def test_names_in_a_strangers_statement_are_only_shown(
    signed: Path, lab: Any, podium: Podium
) -> None:
    """A terminal must not obey what a signer calls himself."""
    (each,) = bundled.iterate_bundle_signatures(signed, trailer.read_bundle_trailer(signed))
    text = each.text.replace(b"bench@lab.example", b"\\u001b[31mroot\\u202e")
    found = statement.parse_statement(
        statement.encode_statement(statement.msgspec.json.decode(text, type=statement.Statement)),
        trailer.read_bundle_trailer(signed).digest,
    )
    text = statement.encode_statement(found)
    resigned(signed, text + made_by(lab.key, text))
    answer = podium("verify", signed)
    assert "\x1b" not in answer.stdout and "\u202e" not in answer.stdout and "root" in answer.stdout


@pytest.mark.slow
def test_a_program_that_never_ends_does_not_hold_verify_up(
    signed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, podium: Podium
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh-keygen").write_text("#!/bin/sh\nexec sleep 300\n")
    (tmp_path / "bin" / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(ssh_keygen, "KEYGEN_TIMEOUT_S", 0.5)
    answer = podium("verify", signed)
    assert answer.exit_code == 1 and "did not end" in answer.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("-n", "bench@lab.example", "-V", "20200101:20210101"), "expired"),
        (("-n", "other@lab.example"), "not authorized"),
    ],
)
def test_a_certificate_that_is_not_valid_for_its_signer_is_named(
    bundle: Path,
    lab: Any,
    podium: Callable[..., Any],
    tmp_path: Path,
    options: tuple[str, ...],
    reason: str,
) -> None:
    """It was called a key that the signers file does not have."""
    authority, user = (
        lab.key_with("-t", "ed25519", "-N", "", name=f"ca-{reason}"),
        lab.key_with("-t", "ed25519", "-N", "", name=f"user-{reason}"),
    )
    subprocess.run(
        ["ssh-keygen", "-q", "-s", authority, "-I", "id", *options, f"{user}.pub"], check=True
    )
    (tmp_path / "signers").write_text(
        f'*@lab.example cert-authority,namespaces="podium-bundle" {lab.public(authority.name)}\n'
    )
    assert (
        podium("sign", bundle, "--key", f"{user}-cert.pub", "--as", "bench@lab.example").exit_code
        == 0
    )
    told = podium("verify", bundle, "--signers", tmp_path / "signers")
    assert (
        told.exit_code == 1
        and "certificate not authorized" in told.output
        and reason in told.output
    )


def test_what_is_no_file_is_not_waited_for(tmp_path: Path, podium: Callable[..., Any]) -> None:
    """A pipe that nobody writes to held the command up for ever."""
    os.mkfifo(tmp_path / "pipe")
    for words in (
        ("verify", tmp_path / "pipe"),
        ("timestamp", tmp_path / "pipe", "--query", tmp_path / "q"),
    ):
        told = podium(*words)
        assert told.exit_code == 1 and "not a regular file" in told.output + str(told.exception)
