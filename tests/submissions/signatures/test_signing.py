"""`podium sign`: what it writes is what ssh-keygen and every unpacking tool read without podium,
and what cannot sign is one sentence.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import zstandard
from click.testing import Result

from compliance.bundle import trailer
from compliance.bundle.trailer import FrameKind, TrailerFrame
from compliance.kinds.podium.documents import json_document
from compliance.rules import load_rules
from submissions.pack.seal import inspect_bundle, read_bundle_manifest
from submissions.signatures import bundled, signing, ssh_keygen, statement
from suite.errors import PodiumError

Podium = Callable[..., Result]


def statement_of(bundle: Path) -> bytes:
    (each,) = bundled.iterate_bundle_signatures(bundle, trailer.read_bundle_trailer(bundle))
    return each.text


def test_ssh_keygen_verifies_what_podium_signed_without_podium(
    signed: Path, lab: Any, tmp_path: Path
) -> None:
    """The recipe of docs/guides/signing.md, word for word: grep, sed and ssh-keygen."""
    page = (Path(__file__).parents[3] / "docs" / "guides" / "signing.md").read_text()
    recipe = page.partition("<!-- recipe -->\n```\n")[2].partition("```")[0]
    lab.signers()
    shutil.copy(lab.folder / "allowed_signers", signed.parent)
    done = subprocess.run(
        ["bash", "-euc", recipe], cwd=signed.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (
        'Good "podium-bundle" signature for bench@lab.example with ED25519 key SHA256:'
        in done.stdout
    )
    seal = done.stdout.split()[-1]
    assert json.loads(statement_of(signed))["subject"] == [
        {
            "name": "mine.tar.zst",
            "digest": {"sha256": seal},
            "annotations": {"signer": "bench@lab.example"},
        }
    ]


def test_a_statement_is_one_of_in_toto_and_names_rules_round_and_code(signed: Path) -> None:
    """Who reads it without podium learns what was checked, by which files."""
    found = json.loads(statement_of(signed))
    jsonschema.Draft202012Validator(
        json_document.read_published_schemas()["statement.json"]
    ).validate(found)
    assert (found["_type"], found["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://in-toto.io/attestation/test-result/v0.1",
    )
    predicate = found["predicate"]
    assert (
        predicate["result"] == ("WARNED" if predicate["warnedTests"] else "PASSED")
        and not predicate["failedTests"]
    )
    assert {*predicate["passedTests"], *predicate["warnedTests"]} <= {
        *load_rules("podium")
    } and "bundle.manifest" in predicate["passedTests"]
    names = [each["name"] for each in predicate["configuration"]]
    assert (
        "suite/rounds/podium-v1.toml" in names
        and "workloads/resnet50/podium-v1.toml" in names
        and names[-1].startswith("podium-suite ")
    )
    assert all(len(each["digest"]["sha256"]) == 64 for each in predicate["configuration"])


def test_unpacking_tools_pass_over_a_signature(signed: Path, packed: Path) -> None:
    """A signed bundle is read by what read it before, and its identity, the seal, is the same."""
    assert signed.read_bytes().startswith(packed.read_bytes())
    assert trailer.read_bundle_trailer(signed).digest == trailer.read_bundle_trailer(packed).digest
    with (
        signed.open("rb") as stream,
        zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True) as content,
    ):
        names = tarfile.open(fileobj=content, mode="r|").getnames()  # noqa: SIM115 - closed with the stream
    assert names[0] == "manifest.json" and list(inspect_bundle(signed)) == []


@pytest.mark.skipif(shutil.which("zstd") is None, reason="the program zstd is not installed")
def test_the_programs_tar_and_zstd_read_a_signed_bundle(signed: Path) -> None:
    subprocess.run(["zstd", "-q", "-t", str(signed)], check=True)
    listed = subprocess.run(
        ["tar", "--zstd", "-tf", str(signed)], check=True, capture_output=True, text=True
    ).stdout
    assert listed.startswith("manifest.json\n")


@pytest.mark.slow
def test_sixteen_keys_may_sign_each_once(bundle: Path, lab: Any, podium: Podium) -> None:
    """A second signature of one key says nothing more, and a bundle is no place to store things."""
    text = statement.encode_statement(
        statement.build_statement(
            bundle.name,
            trailer.read_bundle_trailer(bundle).digest,
            read_bundle_manifest(bundle),
            [],
            None,
        )
    )
    for number in range(15):
        key = lab.key_with("-t", "ed25519", "-N", "", name=f"{bundle.parent.name}-{number}")
        signing.append_trailer_frame(
            bundle,
            TrailerFrame(kind=FrameKind.SIGNATURE, content=text + ssh_keygen.sign_bytes(key, text)),
        )
    assert podium("sign", bundle, "--key", lab.folder / "other").exit_code == 0
    again = podium("sign", bundle, "--key", key)
    assert again.exit_code == 2 and "already signed with key" in str(again.exception)
    full = podium("sign", bundle, "--key", lab.key)
    assert full.exit_code == 2 and "16 signatures" in str(full.exception)
    assert (
        len(trailer.read_bundle_trailer(bundle).frames) == 16 and list(inspect_bundle(bundle)) == []
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [("-t", "rsa", "-b", "2048"), ("-t", "ecdsa")], ids=["rsa", "ecdsa"]
)
def test_other_kinds_of_keys_sign(
    bundle: Path, lab: Any, podium: Podium, kind: Sequence[str]
) -> None:
    key = lab.key_with(*kind, "-N", "", name=kind[1])
    assert podium("sign", bundle, "--key", key).exit_code == 0
    answer = podium("verify", bundle, "--signers", lab.signers(key=kind[1]), "--require", "signed")
    assert (
        answer.exit_code == 0 and f"bench@lab.example, {kind[1].upper()} SHA256:" in answer.stdout
    )


def test_a_detached_signature_leaves_the_bundle_as_it_is(
    bundle: Path, packed: Path, lab: Any, podium: Podium
) -> None:
    assert podium("sign", bundle, "--key", lab.key, "--detached").exit_code == 0
    assert bundle.read_bytes() == packed.read_bytes()
    assert (
        "ED25519"
        in podium("verify", bundle, "--signers", lab.signers(), "--require", "signed").stdout
    )
    again = podium("sign", bundle, "--key", lab.key.with_name("other"), "--detached")
    assert again.exit_code == 2 and "detached statement already" in str(again.exception)
    bundle.with_name("mine.tar.zst.statement.json").unlink()
    half = podium("verify", bundle)
    assert half.exit_code == 1 and "mine.tar.zst.statement.json" in half.stdout


def test_a_broken_bundle_is_not_signed(bundle: Path, lab: Any, podium: Podium) -> None:
    """A signature under what the judge refuses would lend it a name."""
    data = bytearray(bundle.read_bytes())
    data[-1] ^= 1
    bundle.write_bytes(data)
    outcome = podium("sign", bundle, "--key", lab.key)
    assert outcome.exit_code == 1 and "changed after it was sealed" in str(outcome.exception)
    assert bundle.read_bytes() == bytes(data)


@pytest.mark.slow
def test_without_ssh_keygen_nobody_signs_and_verify_says_not_checked(
    signed: Path, lab: Any, podium: Podium, without_programs: Callable[[Sequence[str]], None]
) -> None:
    without_programs(["ssh-keygen"])
    outcome = podium("sign", signed, "--key", lab.key)
    assert outcome.exit_code == 3 and "ssh-keygen is not installed" in str(outcome.exception)
    answer = podium("verify", signed, "--signers", lab.signers())
    assert (
        answer.exit_code == 0
        and "signed  signature not checked: ssh-keygen is not installed" in answer.stdout
    )
    assert podium("verify", signed, "--require", "signed").exit_code == 1


SETSID = [
    sys.executable,
    "-c",
    "import os, sys; os.setsid(); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])",
]


@pytest.mark.slow
@pytest.mark.parametrize("askpass", [False, True])
def test_a_passphrase_without_a_terminal_ends_at_once(
    bundle: Path, lab: Any, tmp_path: Path, askpass: bool
) -> None:
    """Nobody is there to type it: neither a prompt nor a window that nobody sees may hold a job
    up.
    """
    key = lab.folder / "locked"
    if not key.exists():
        lab.key_with("-t", "ed25519", "-N", "a secret", name="locked")
    asker = tmp_path / "askpass"
    asker.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nsleep 300\n")
    asker.chmod(0o755)
    windows = (
        {"DISPLAY": ":0", "SSH_ASKPASS": str(asker), "SSH_ASKPASS_REQUIRE": "force"}
        if askpass
        else {}
    )
    command = [*SETSID, "-m", "suite.cli", "sign", str(bundle), "--key", str(key)]
    before = bundle.read_bytes()
    done = subprocess.run(
        command,
        env={**os.environ, **windows},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert (
        "the key has a passphrase, and there is no terminal to ask for it" in done.stderr
        and "Traceback" not in done.stderr
    )
    assert not (tmp_path / "asked").exists() and bundle.read_bytes() == before


@pytest.mark.parametrize("name", ["", "two words", "a,b", "*@lab.example", "a\x1b[31m"])
def test_a_name_that_no_file_of_signers_can_have_is_refused(
    bundle: Path, lab: Any, podium: Podium, name: str
) -> None:
    outcome = podium("sign", bundle, "--key", lab.key, "--as", name)
    assert outcome.exit_code == 2 and "not a valid signer name" in str(outcome.exception)


def test_a_key_that_is_none_is_refused(
    bundle: Path, lab: Any, tmp_path: Path, podium: Podium
) -> None:
    assert "no such key file" in str(
        podium("sign", bundle, "--key", tmp_path / "nothing").exception
    )
    (tmp_path / "text").write_text("no key\n")
    (tmp_path / "text").chmod(0o600)
    outcome = podium("sign", bundle, "--key", tmp_path / "text")
    assert outcome.exit_code == 2 and "ssh-keygen did not sign" in str(outcome.exception)


def test_a_full_disk_leaves_the_bundle_as_it_was(
    bundle: Path, lab: Any, podium: Podium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-written copy must not stay, nor take the bundle's place."""
    before = bundle.read_bytes()
    monkeypatch.setattr(
        trailer.TrailerFrame,
        "encode_frame",
        lambda self: (_ for _ in ()).throw(OSError(28, "No space left on device")),
    )
    outcome = podium("sign", bundle, "--key", lab.key)
    assert (
        isinstance(outcome.exception, PodiumError)
        and outcome.exit_code == 3
        and "No space left" in str(outcome.exception)
    )
    assert bundle.read_bytes() == before and [
        path.name for path in bundle.parent.glob("mine*")
    ] == [bundle.name]


def test_a_key_that_others_may_read_is_named(
    bundle: Path, lab: Any, podium: Callable[..., Any]
) -> None:
    """ssh-keygen's last line says that there is no private key."""
    key = lab.key_with("-t", "ed25519", "-N", "", name="open")
    key.chmod(0o644)
    refused = podium("sign", bundle, "--key", key)
    assert refused.exit_code == 2 and "chmod 600 " in str(refused.exception)


def test_a_byte_order_mark_before_the_signers_is_named(
    signed: Path, lab: Any, podium: Callable[..., Any]
) -> None:
    """Two names that look equal were said to differ."""
    signers = lab.signers()
    signers.write_bytes(b"\xef\xbb\xbf" + signers.read_bytes())
    for command in (("verify", signed), ("publish", signed, "-o", signed.parent / "site")):
        refused = podium(*command, "--signers", signers)
        assert refused.exit_code == 2 and "begins with a byte order mark" in str(refused.exception)
