"""Bundles: equal bytes for equal results, nothing unsealed in them, and no byte that can change
unseen.
"""

import errno
import hashlib
import io
import json
import resource
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import zstandard
from click.testing import CliRunner
from forged_bundles import (
    ADDED,
    GARBAGE,
    TAILS,
    member,
    members_of,
    raw_of,
    reseal,
    sealed_behind,
    with_member,
    with_padding,
    with_time,
    without_member,
)
from modes import run_without_powers
from system_records import put_system

from compliance.bundle.archive import unpack_bundle
from compliance.bundle.seal import SEAL_BYTES
from compliance.verdict import Finding
from submissions.commands.pack import pack as pack_command
from submissions.commands.verify import verify as verify_command
from submissions.pack import seal as sealing
from submissions.pack.bundle import list_packed_bundle_problems, pack_results
from submissions.pack.manifest import build_bundle_manifest
from submissions.result_index import find_results, open_results
from suite.errors import JudgedError, MissingError, RequestError
from suite.loadgen.scenario import Scenario

pytestmark = pytest.mark.usefixtures("objections")


@pytest.fixture
def bundle(results: Path, tmp_path: Path, objections: list[Finding]) -> Path:
    """A packed tree."""
    return pack_results(results, tmp_path / "x.tar.zst")


def names(bundle: Path) -> list[str]:
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(bundle.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        return archive.getnames()


def test_equal_results_make_equal_bytes_wherever_and_whenever(
    results: Path, bundle: Path, tmp_path: Path
) -> None:
    shutil.copytree(results, tmp_path / "elsewhere" / "copy")
    (tmp_path / "elsewhere" / "copy" / "open" / "acme" / "systems" / "host-torch-fp32.json").chmod(
        0o600
    )
    again = pack_results(tmp_path / "elsewhere" / "copy", tmp_path / "y.tar.zst")
    assert again.read_bytes() == bundle.read_bytes()


def test_a_bundle_holds_logs_truth_records_and_systems_but_no_weights_state_or_unfinished_files(
    bundle: Path,
) -> None:
    found = names(bundle)
    assert found[0] == "manifest.json"
    assert found[1:] == sorted(found[1:])
    assert "open/acme/results/host-torch-bf16/resnet/result_0.txt" in found
    assert (
        "open/acme/results/host-torch-fp32/resnet50/Server/performance/run_1/mlperf_log_detail.txt"
        in found
    )
    assert (
        "open/acme/measurements/host-torch-fp32/resnet50/Server/host-torch-fp32_podium_Server.json"
        in found
    )
    assert "open/acme/truth/resnet50/labels.txt" in found
    assert f"checkpoints/resnet50/{'ab' * 32}/record.json" in found
    assert not [
        name
        for name in found
        if ".partial" in name or ".podium" in name or name.endswith("safetensors")
    ]


def test_every_member_is_a_plain_file_of_nobody_at_time_zero(bundle: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(raw_of(bundle))) as archive:
        facts = {
            (m.type, m.mode, m.mtime, m.uid, m.gid, m.uname, m.gname) for m in archive.getmembers()
        }
    assert facts == {(tarfile.REGTYPE, 0o644, 0, 0, 0, "", "")}


def test_the_manifest_says_what_was_sealed_where_it_comes_from_and_how_it_was_made(
    bundle: Path, tmp_path: Path
) -> None:
    unpack_bundle(bundle, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_bytes())
    assert {key: manifest[key] for key in ("format", "round", "profile", "workloads", "seeds")} == {
        "format": 3,
        "round": "podium-v1",
        "profile": "smoke",
        "workloads": ["resnet50"],
        "seeds": [0],
    }
    assert manifest["checkpoints"] == {"resnet50": "ab" * 32}
    assert manifest["nonce"] == {"resnet50": "0123456789abcdef" * 2}
    assert manifest["commands"] == [
        ["podium", "train", "resnet50"],
        ["podium", "infer", "resnet50"],
    ]
    assert manifest["environment"]["host-torch-bf16"]["git_commit"] == "c0ffee"
    for name, sealed in manifest["files"].items():
        data = (tmp_path / "out" / name).read_bytes()
        assert sealed == {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def test_official_tools_unpack_a_bundle(bundle: Path, tmp_path: Path) -> None:
    """Standard tar and zstd must read it: the seal is a frame that they pass over."""
    with (
        bundle.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream,
    ):
        assert len(tarfile.open(fileobj=stream, mode="r|").getnames()) > 20  # noqa: SIM115 - closed with the stream


def test_a_sound_bundle_has_no_problem(bundle: Path) -> None:
    assert list_packed_bundle_problems(bundle) == []


def test_a_bundle_of_a_workload_that_nobody_knows_here_is_not_called_broken(
    bundle: Path, objections: list[Finding], objection: Finding
) -> None:
    """What is lacking is a package on this machine; a bundle whose bytes are not whole is broken
    all the same.
    """
    objections.append(replace(objection, rule="tree.installed", found="workload 'moons'"))
    with pytest.raises(
        MissingError,
        match="cannot be judged here: the package of workload 'moons' is not installed",
    ):
        CliRunner().invoke(verify_command, [str(bundle)], catch_exceptions=False)
    bundle.write_bytes(bundle.read_bytes()[:-1])
    assert "broken" in CliRunner().invoke(verify_command, [str(bundle)]).output


def test_any_flipped_bit_is_found(bundle: Path, tmp_path: Path) -> None:
    """Each byte of the archive, the seal included; many flips leave the content as it was."""
    data = bundle.read_bytes()
    step = max(1, len(data) // 150)
    for position in [
        *range(12),
        *range(12, len(data) - SEAL_BYTES, step),
        *range(len(data) - SEAL_BYTES - 8, len(data)),
    ]:
        other = bytearray(data)
        other[position] ^= 1 << position % 8
        (tmp_path / "y").write_bytes(other)
        assert list(sealing.inspect_bundle(tmp_path / "y")), position


@pytest.mark.parametrize("cut", [1, SEAL_BYTES, SEAL_BYTES + 1, 500, 10**9])
def test_a_truncated_bundle_is_found(bundle: Path, cut: int) -> None:
    data = bundle.read_bytes()
    bundle.write_bytes(data[: max(0, len(data) - cut)])
    assert list_packed_bundle_problems(bundle)


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_bytes_behind_the_seal_or_before_it_are_found(bundle: Path, tail: bytes) -> None:
    data = bundle.read_bytes()
    bundle.write_bytes(data + tail)
    assert list_packed_bundle_problems(bundle)
    bundle.write_bytes(data)
    sealed_behind(bundle, tail)
    assert list_packed_bundle_problems(bundle)


def test_content_changed_under_a_new_seal_is_named(bundle: Path) -> None:
    (problem,) = list_packed_bundle_problems(
        reseal(bundle, raw_of(bundle).replace(b"202.5", b"909.5"))
    )
    assert "Offline/performance/run_1/mlperf_log_detail.txt: changed" in problem


@pytest.mark.parametrize("name", ["manifest.json", "open/acme/truth/resnet50/labels.txt"])
def test_bytes_in_the_padding_are_found(bundle: Path, name: str) -> None:
    assert list_packed_bundle_problems(reseal(bundle, with_padding(raw_of(bundle), name))) == [
        f"{name}: its padding is not empty"
    ]


def test_bytes_in_the_last_record_are_found(bundle: Path) -> None:
    raw = raw_of(bundle)
    assert list_packed_bundle_problems(reseal(bundle, raw[:-1] + b"\1"))
    assert list_packed_bundle_problems(reseal(bundle, raw[:-512]))
    assert list_packed_bundle_problems(reseal(bundle, raw + b"\0" * 512))


@pytest.mark.parametrize(("extra", "word"), ADDED.values(), ids=ADDED)
@pytest.mark.parametrize("place", ["first", "last"])
def test_an_added_member_is_named_and_nothing_is_extracted(
    bundle: Path, tmp_path: Path, extra: bytes, word: str, place: str
) -> None:
    before = set(tmp_path.rglob("*"))
    problems = list_packed_bundle_problems(
        reseal(bundle, with_member(raw_of(bundle), extra, place))
    )
    assert word in problems[0]
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("which", [1, 5, -1])
def test_a_missing_member_is_named(bundle: Path, which: int) -> None:
    raw = raw_of(bundle)
    gone = members_of(raw)[which]
    problems = list_packed_bundle_problems(reseal(bundle, without_member(raw, which)))
    assert gone.name in problems[0]


def test_a_changed_header_is_found(bundle: Path) -> None:
    """Another mode or time is a changed byte, though no content changed."""
    changed = reseal(bundle, with_time(raw_of(bundle)))
    assert "header was changed" in list_packed_bundle_problems(changed)[0]


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "manifest.json"])
def test_a_manifest_that_names_an_unsafe_path_is_refused(bundle: Path, name: str) -> None:
    text, manifest = sealing.read_manifest_member(io.BytesIO(raw_of(bundle)).read, bundle.name)
    document = json.loads(text)
    document["files"] = {name: {"sha256": hashlib.sha256(b"x").hexdigest(), "size": 1}}
    text = (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()
    raw = (
        sealing.build_tar_header("manifest.json", len(text))
        + text
        + sealing.build_tar_padding(len(text))
        + member(name)
    )
    problems = list_packed_bundle_problems(reseal(bundle, raw + sealing.build_tar_end(len(raw))))
    assert any(name in problem for problem in problems)


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_no_bundle_and_no_traceback(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.tar.zst").write_bytes(content)
    assert list_packed_bundle_problems(tmp_path / "x.tar.zst")


@pytest.mark.slow
def test_a_small_file_that_unpacks_without_end_is_refused(bundle: Path) -> None:
    """A manifest may name a size; it does not make a bomb legal."""
    text, _ = sealing.read_manifest_member(io.BytesIO(raw_of(bundle)).read, bundle.name)
    document = json.loads(text)
    document["files"] = {"a": {"sha256": "0" * 64, "size": 80 << 20}}
    text = (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()
    raw = (
        sealing.build_tar_header("manifest.json", len(text))
        + text
        + sealing.build_tar_padding(len(text))
        + sealing.build_tar_header("a", 80 << 20)
        + b"\0" * (80 << 20)
    )
    assert (
        "far more"
        in list_packed_bundle_problems(reseal(bundle, raw + sealing.build_tar_end(len(raw))))[0]
    )


def test_a_missing_bundle_and_a_folder_are_told(tmp_path: Path) -> None:
    assert "No such file" in list_packed_bundle_problems(tmp_path / "nothing")[0]
    assert (
        "podium check" in list_packed_bundle_problems(tmp_path)[0]
        and "a directory, not a bundle" in list_packed_bundle_problems(tmp_path)[0]
    )


def test_what_the_judge_refuses_is_not_packed(
    results: Path, tmp_path: Path, objections: list[Finding], objection: Finding
) -> None:
    objections.append(objection)
    with pytest.raises(JudgedError, match="training.target"):
        pack_results(results, tmp_path / "x.tar.zst")
    assert not list(tmp_path.glob("x.tar*"))


def test_a_judge_that_refuses_the_content_breaks_a_whole_bundle(
    bundle: Path, objections: list[Finding], objection: Finding
) -> None:
    objections.append(objection)
    assert "found 0.7; expected 0.759" in list_packed_bundle_problems(bundle)[0]


def test_a_full_disk_leaves_nothing(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-written bundle must not stay, and what was there before must."""
    (tmp_path / "x.tar.zst").write_text("before")

    def full(*_: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sealing, "build_tar_padding", lambda size: b"" if size < 0 else full())
    with pytest.raises(MissingError, match="No space left"):
        pack_results(results, tmp_path / "x.tar.zst")
    assert [path.name for path in tmp_path.glob("x.tar*")] == ["x.tar.zst"]
    assert (tmp_path / "x.tar.zst").read_text() == "before"


def test_a_disk_that_takes_no_more_bytes_leaves_nothing(results: Path, tmp_path: Path) -> None:
    """The operating system's own limit on a file's size, in place of a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(MissingError, match="not packed"):
            pack_results(results, tmp_path / "x.tar.zst")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.glob("x.tar*"))


def test_a_folder_that_cannot_be_written_to_is_a_wrong_request(
    results: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="not packed"):
        pack_results(results, tmp_path / "file" / "x.tar.zst")


def test_verify_names_the_scenarios_that_are_not_in_a_bundle(bundle: Path) -> None:
    """Who leaves out what came out badly does not pass for whole."""
    with open_results(bundle) as results:
        held = {result.scenario for result in results if result.scenario}
    scope = json.loads(
        CliRunner()
        .invoke(verify_command, [str(bundle), "--format", "json"], standalone_mode=False)
        .stdout
    )["judge"]["text"]
    assert held and all(
        (f"resnet50's {scenario.label}" in scope) is (scenario not in held) for scenario in Scenario
    )


def test_programs_read_what_is_wrong_as_json(bundle: Path) -> None:
    outcome = CliRunner().invoke(
        verify_command, [str(bundle), "--format", "json"], standalone_mode=False
    )
    told = json.loads(outcome.stdout)
    assert outcome.return_value == 0 and told["not_shown"].startswith(
        "Not shown by any of these checks"
    )
    assert {name: told[name] for name in ("bundle", "whole", "problems", "unmet")} == {
        "bundle": str(bundle),
        "whole": True,
        "problems": [],
        "unmet": [],
    }
    assert told["bytes"]["text"].startswith("whole: ") and told["judge"]["text"].startswith(
        "valid by podium-v1"
    )
    assert told["ledger"] == {"state": "open", "text": "none: the results have no ledger"}
    bundle.write_bytes(bundle.read_bytes()[:-1])
    outcome = CliRunner().invoke(
        verify_command, [str(bundle), "--format", "json"], standalone_mode=False
    )
    assert outcome.return_value == 1
    told = json.loads(outcome.stdout)
    assert told["problems"] and told["bytes"]["state"] == "bad" and "ledger" not in told


def test_a_system_description_without_podiums_block_is_not_packed(
    results: Path, tmp_path: Path
) -> None:
    (results / "open" / "acme" / "systems" / "host-torch-bf16.json").write_text("{}")
    with pytest.raises(JudgedError, match="no system description"):
        pack_results(results, tmp_path / "x")


@pytest.mark.parametrize("number", ["1e999", "-Infinity", "NaN"])
def test_a_system_description_with_a_number_that_is_none_is_not_packed(
    results: Path, tmp_path: Path, number: str
) -> None:
    """The manifest repeats it, and JSON cannot."""
    for path in results.rglob("systems/*.json"):
        path.write_text(path.read_text().replace('"podium": {', f'"podium": {{"x": {number}, ', 1))
    with pytest.raises(JudgedError, match="JSON"):
        pack_results(results, tmp_path / "x.tar.zst")


def test_hardware_stands_in_the_manifest(results: Path, tmp_path: Path) -> None:
    path = results / "open" / "acme" / "systems" / "host-torch-bf16.json"
    path.write_text(
        json.dumps(
            json.loads(path.read_text())
            | {
                "host_processor_model_name": "a CPU",
                "accelerator_model_name": "a GPU",
            }
        )
    )
    unpack_bundle(pack_results(results, tmp_path / "x"), tmp_path / "out")
    block = json.loads((tmp_path / "out" / "manifest.json").read_bytes())["environment"][
        "host-torch-bf16"
    ]
    assert block["hardware"] == {
        "host_processor_model_name": "a CPU",
        "accelerator_model_name": "a GPU",
    }


def test_two_served_checkpoints_do_not_share_a_bundle(results: Path, tmp_path: Path) -> None:
    put_system(checkpoint_sha256="cd" * 32)(next(results.rglob("Offline/system.json")))
    with pytest.raises(JudgedError, match="2 served checkpoints of resnet50"):
        pack_results(results, tmp_path / "x")


def test_a_results_folder_that_is_not_there_is_a_wrong_request(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such results folder"):
        pack_results(tmp_path / "nothing", tmp_path / "x")


def test_an_empty_folder_holds_nothing_to_pack(tmp_path: Path) -> None:
    with pytest.raises(JudgedError, match="no results"):
        pack_results(tmp_path, tmp_path / "x")


def test_an_unknown_workload_is_offered_the_nearest(results: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="did you mean 'resnet50'"):
        pack_results(results, tmp_path / "x", ["resnet5"])


def test_one_system_alone_can_be_packed(results: Path, tmp_path: Path) -> None:
    found = names(pack_results(results, tmp_path / "x", systems=["host-torch-bf16"]))
    assert [name for name in found if "results" in name] == [
        "open/acme/results/host-torch-bf16/resnet/result_0.txt"
    ]


def test_two_profiles_do_not_share_a_bundle(
    results: Path, tmp_path: Path, make_log: Callable[..., None]
) -> None:
    make_log(
        results / "open" / "acme" / "results" / "host-torch-bf16" / "resnet" / "result_1.txt",
        profile="quick",
    )
    with pytest.raises(JudgedError, match="2 profiles: quick, smoke"):
        pack_results(results, tmp_path / "x")


def test_a_link_in_the_results_is_refused(results: Path, tmp_path: Path) -> None:
    (results / "open" / "acme" / "truth" / "resnet50" / "more").symlink_to("/etc/passwd")
    with pytest.raises(JudgedError, match="link"):
        pack_results(results, tmp_path / "x")


def test_long_and_foreign_names_are_packed(tmp_path: Path, make_tree: Callable[..., Path]) -> None:
    bundle = pack_results(make_tree(tmp_path / "r", org="Mü" * 60), tmp_path / "x")
    assert list_packed_bundle_problems(bundle) == []
    unpack_bundle(bundle, tmp_path / "out")
    assert (tmp_path / "out" / "open" / ("Mü" * 60) / "truth" / "resnet50" / "labels.txt").is_file()


def test_a_file_that_grows_while_it_is_packed_is_found(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sealing.iterate_file_chunks

    def grown(name: str, size: int, source: Path) -> object:
        with source.open("ab") as stream:
            stream.write(b"x")
        return real(name, size, source)

    monkeypatch.setattr(sealing, "iterate_file_chunks", grown)
    with pytest.raises(JudgedError, match="changed during"):
        pack_results(results, tmp_path / "x")


def test_a_name_with_control_characters_is_told_in_one_line(bundle: Path) -> None:
    """`x.tar.zst: whole and valid` in a name would stand in the output of verify."""
    raw = raw_of(bundle)
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        at = archive.getmembers()[1].offset
    problems = list_packed_bundle_problems(
        reseal(bundle, raw[:at] + member("a\nb\x1b[8m") + raw[at:])
    )
    assert problems and all(problem.isprintable() for problem in problems)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("commands", [["podium", "run", "everything"]]),
        ("seeds", [7, 8]),
        ("nonce", {"resnet50": "ab" * 16}),
        ("environment", {}),
    ],
)
def test_a_manifest_that_tells_more_than_its_results_is_found(
    results: Path, tmp_path: Path, field: str, value: object
) -> None:
    """Commands, seeds and machines of its own, sealed anew: the results in it say otherwise."""
    manifest, sources = build_bundle_manifest(find_results(results))
    path = tmp_path / "x.tar.zst"
    sealing.write_bundle(path, msgspec.structs.replace(manifest, **{field: value}), sources)
    assert list_packed_bundle_problems(path) == [
        f"manifest.json: {field} differs from the results in the bundle"
    ]


def test_a_bundle_is_not_replaced_unless_asked(results: Path, tmp_path: Path) -> None:
    """A sealed bundle was gone, and nothing said so; `-o b.zip` made no zip."""
    bundle = tmp_path / "x.tar.zst"
    bundle.write_bytes(b"sealed")
    refused = CliRunner().invoke(pack_command, [str(results), "-o", str(bundle)])
    assert isinstance(refused.exception, RequestError)
    assert "exists; name another file, or replace it with --force" in str(refused.exception)
    assert bundle.read_bytes() == b"sealed"
    done = CliRunner().invoke(pack_command, [str(results), "-o", str(bundle), "--force"])
    assert done.exit_code == 0 and bundle.read_bytes() != b"sealed"
    zipped = CliRunner().invoke(pack_command, [str(results), "-o", str(tmp_path / "b.zip")])
    assert isinstance(zipped.exception, RequestError)
    assert "a bundle is a .tar.zst file" in str(zipped.exception)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o111, 0o000])
def test_a_scenario_that_may_not_be_listed_is_not_left_out(
    results: Path, tmp_path: Path, mode: int
) -> None:
    """It was sealed without MultiStream, exit 0, without a word."""
    (folder,) = results.rglob("results/*/resnet50/MultiStream")
    folder.chmod(mode)
    try:
        done = run_without_powers("pack", results, "-o", tmp_path / "bundle.tar.zst")
    finally:
        folder.chmod(0o755)
    assert done.returncode == 2
    assert f"{folder}: cannot be read, so nothing is packed: Permission denied" in done.stderr
    assert not (tmp_path / "bundle.tar.zst").exists()
