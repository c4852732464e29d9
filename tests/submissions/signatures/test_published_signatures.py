"""Whose signature a site and a report tell, where copies of one bundle differ in what follows the
seal.
"""

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compliance.bundle import trailer
from submissions.signatures import bundled

Podium = Callable[..., Any]


@pytest.fixture
def spoilt(signed: Path, tmp_path: Path) -> Path:
    """A copy whose signature has one bit flipped."""
    copy = Path(shutil.copy(signed, tmp_path / "spoilt.tar.zst"))
    (each,) = bundled.iterate_bundle_signatures(copy, trailer.read_bundle_trailer(copy))
    data = bytearray(copy.read_bytes())
    place = data.rindex(each.signature) + len(each.signature) // 2
    data[place] ^= 1
    copy.write_bytes(bytes(data))
    return copy


@pytest.mark.slow
def test_of_copies_of_one_bundle_the_signed_one_stands_in_the_site(
    signed: Path, packed: Path, lab: Any, tmp_path: Path, podium: Podium
) -> None:
    """The first was taken, signed or not."""
    for number, paths in enumerate(([packed, signed], [signed, packed])):
        site = tmp_path / f"site-{number}"
        assert podium("publish", *paths, "-o", site, "--signers", lab.signers()).exit_code == 0
        told = json.loads((site / "data/results.json").read_text())["results"]
        assert {row["signed_by"] for row in told} == {"bench@lab.example"}


@pytest.mark.slow
def test_a_copy_with_a_spoilt_signature_is_named_and_hides_no_good_one(
    signed: Path, spoilt: Path, lab: Any, tmp_path: Path, podium: Podium
) -> None:
    """Given first it hid the good copy; given last nobody heard of it."""
    for number, paths in enumerate(([spoilt, signed], [signed, spoilt])):
        site = tmp_path / f"site-{number}"
        outcome = podium("publish", *paths, "-o", site, "--signers", lab.signers())
        assert outcome.exit_code == 1 and "spoilt.tar.zst: " in str(outcome.exception)
        assert json.loads((site / "data/results.json").read_text())["results"]


@pytest.mark.slow
def test_a_key_that_the_file_does_not_have_is_told_as_such(
    signed: Path, lab: Any, tmp_path: Path, podium: Podium
) -> None:
    """It was checked."""
    podium("publish", signed, "-o", tmp_path / "site", "--signers", lab.signers(key="other"))
    told = json.loads((tmp_path / "site/data/results.json").read_text())["results"]
    assert {row["signed_by"] for row in told} == {"a key that is not in allowed_signers"}


@pytest.mark.slow
def test_a_report_of_a_spoilt_signature_says_so(
    spoilt: Path, tmp_path: Path, podium: Podium
) -> None:
    """A green page, where verify says broken."""
    outcome = podium("report", spoilt, "-o", tmp_path / "page.html")
    assert outcome.exit_code == 1
    assert (
        "signature" in (tmp_path / "page.html").read_text()
        and podium("verify", spoilt).exit_code == 1
    )


def test_nothing_is_put_behind_a_spoilt_signature(spoilt: Path, lab: Any, podium: Podium) -> None:
    """A second signature would vouch for what verify calls broken."""
    outcome = podium("sign", spoilt, "--key", lab.key_with("-t", "ed25519", "-N", "", name="third"))
    assert outcome.exit_code == 1 and "broken, so nothing was added to it" in str(outcome.exception)


@pytest.mark.slow
def test_one_of_several_lines_of_a_key_is_enough(
    signed: Path, lab: Any, tmp_path: Path, podium: Podium
) -> None:
    """The first line is for git, and only that was tried."""
    signers = tmp_path / "signers"
    signers.write_text(
        f'git@lab.example namespaces="git" {lab.public()}\nbench@lab.example {lab.public()}\n'
    )
    answer = podium("verify", signed, "--signers", signers)
    assert answer.exit_code == 0 and "bench@lab.example" in answer.stdout


@pytest.mark.slow
def test_a_revoked_key_is_named_though_nobody_knows_it(
    signed: Path, lab: Any, tmp_path: Path, podium: Podium
) -> None:
    """Its revocation was not looked at."""
    revoked = Path(shutil.copy(f"{lab.key}.pub", tmp_path / "revoked"))
    answer = podium("verify", signed, "--signers", lab.signers(key="other"), "--revoked", revoked)
    assert answer.exit_code == 1 and "the key was revoked" in answer.stdout
    subprocess.run(
        ["ssh-keygen", "-q", "-k", "-f", str(revoked), f"{lab.folder / 'other'}.pub"],
        check=True,
        capture_output=True,
    )
    assert (
        podium(
            "verify", signed, "--signers", lab.signers(key="other"), "--revoked", revoked
        ).exit_code
        == 0
    )


@pytest.mark.slow
def test_the_same_signature_twice_is_no_second_voice(
    signed: Path, lab: Any, podium: Podium
) -> None:
    """Two equal lines read as two signers."""
    frame = trailer.read_bundle_trailer(signed).frames[0]
    with signed.open("ab") as stream:
        stream.write(frame.encode_frame())
    answer = podium("verify", signed, "--signers", lab.signers())
    assert answer.exit_code == 1 and "contains the same signature twice" in answer.stdout


def test_requirements_and_paths_that_say_nothing_are_refused(
    bundle: Path, tmp_path: Path, podium: Podium
) -> None:
    """`--require ''` was an unknown requirement without a name; a query made its folder, or said
    that nothing was added to a folder.
    """
    assert podium("verify", bundle, "--require", "").exit_code == 2
    assert (
        podium("timestamp", bundle, "--query", tmp_path / "nowhere" / "q").exit_code
        == podium("timestamp", bundle, "--query", tmp_path).exit_code
        == 2
    )
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verify", "report", "score"])
def test_no_room_to_unpack_is_no_verdict(bundle: Path, tmp_path: Path, command: str) -> None:
    """A whole bundle was called broken because the folder for temporary files was full."""
    limit = (512, 512)
    words = [
        sys.executable,
        "-m",
        "suite.cli",
        command,
        str(bundle),
        *(["-o", str(tmp_path / "page.html")] if command == "report" else []),
    ]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        check=False,
    )
    assert (
        done.returncode == 3
        and "not enough space to unpack" in done.stderr
        and "broken" not in done.stdout + done.stderr
    )


@pytest.mark.slow
def test_a_full_disk_behind_the_output_is_one_sentence(bundle: Path) -> None:
    """It was a traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "suite.cli", "verify", str(bundle)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3 and done.stderr == "podium: output: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["copy", "link"])
def test_a_detached_signature_goes_with_its_bundle(
    bundle: Path, lab: Any, podium: Podium, tmp_path: Path, how: str
) -> None:
    """The site said who signed, and its bundle had no signature."""
    assert (
        podium(
            "sign", bundle, "--key", lab.key, "--as", "bench@lab.example", "--detached"
        ).exit_code
        == 0
    )
    assert (
        podium(
            "publish", bundle, "-o", tmp_path / "site", "--signers", lab.signers(), "--bundles", how
        ).exit_code
        == 0
    )
    (copied,) = (tmp_path / "site" / "bundles").glob("*.tar.zst")
    assert (
        podium("verify", copied, "--signers", lab.signers(), "--require", "signed").exit_code == 0
    )
