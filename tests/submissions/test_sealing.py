"""The bundle's bytes: whatever is sealed comes out again, and one changed byte anywhere is
found.
"""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from compliance.bundle.archive import unpack_bundle
from compliance.bundle.manifest import Manifest, SealedFile, encode_manifest
from compliance.bundle.seal import (
    SEAL_BYTES,
    SEAL_DIGEST_BYTES,
    SEAL_FRAME_HEADER,
    build_bundle_seal,
)
from compliance.bundle.trailer import find_trailer_problem
from submissions.pack import seal as sealing

NAMES = st.text(
    st.characters(exclude_categories=["C"], exclude_characters='/\\:."'), min_size=1, max_size=60
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def manifest(files: dict[str, bytes]) -> Manifest:
    return Manifest(
        format=3,
        round="podium-v1",
        profile="smoke",
        workloads=("fake",),
        nonce={},
        checkpoints={},
        files={
            name: SealedFile(sha256=hashlib.sha256(data).hexdigest(), size=len(data))
            for name, data in files.items()
        },
        environment={"host": {"clock": 2450.125, "governor": None}},
        commands=(["podium", "run"],),
        seeds=(1,),
        version="0",
    )


def sealed(folder: Path, files: dict[str, bytes]) -> Path:
    sources = {}
    for number, (name, data) in enumerate(files.items()):
        sources[name] = folder / f"source{number}"
        sources[name].write_bytes(data)
    sealing.write_bundle(folder / "x.tar.zst", manifest(files), sources)
    return folder / "x.tar.zst"


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(files=st.dictionaries(PATHS, st.binary(max_size=2000), max_size=6))
def test_whatever_is_sealed_is_whole_and_comes_out_again(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    """Names in any alphabet, long ones, empty files, sizes at the borders of a block."""
    folders = {
        "/".join(name.split("/")[:depth])
        for name in files
        for depth in range(1, name.count("/") + 1)
    }
    if folders & files.keys():
        return
    folder = tmp_path_factory.mktemp("seal")
    bundle = sealed(folder, files)
    assert list(sealing.inspect_bundle(bundle)) == []
    unpack_bundle(bundle, folder / "out")
    assert {name: (folder / "out" / name).read_bytes() for name in files} == files


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(position=st.integers(0, 10**6), value=st.integers(1, 255))
def test_any_changed_byte_is_found(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    data = bytearray(sealed(folder, {"a": b"abc" * 100, "b/c": bytes(range(256))}).read_bytes())
    data[position % len(data)] ^= value
    (folder / "y").write_bytes(data)
    assert list(sealing.inspect_bundle(folder / "y"))


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1024])
def test_sizes_at_the_borders_of_a_block_are_padded_as_tar_pads_them(
    tmp_path: Path, size: int
) -> None:
    bundle = sealed(tmp_path, {"a": b"x" * size})
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(bundle.read_bytes())
    assert len(raw) % tarfile.RECORDSIZE == 0
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        assert archive.getmember("a").size == size
    text = encode_manifest(manifest({"a": b"x" * size}))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in (("manifest.json", text), ("a", b"x" * size)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    assert raw == stream.getvalue()


def test_the_seal_is_a_frame_that_zstd_passes_over() -> None:
    packed = zstandard.compress(b"content") + build_bundle_seal(b"\1" * SEAL_DIGEST_BYTES)
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_across_frames=True)
    assert reader.read() == b"content"
    assert len(build_bundle_seal(b"\1" * SEAL_DIGEST_BYTES)) == SEAL_BYTES


@pytest.mark.parametrize(
    ("rest", "stands"),
    [
        (b"", True),
        (build_bundle_seal(b"\0" * SEAL_DIGEST_BYTES), True),
        (build_bundle_seal(b"\0" * SEAL_DIGEST_BYTES) + b"\0", False),
        (SEAL_FRAME_HEADER, False),
        (b"\0" * SEAL_BYTES, False),
        (b"more", False),
    ],
)
def test_nothing_but_a_seal_stands_behind_the_frame(rest: bytes, stands: bool) -> None:
    assert (find_trailer_problem(rest) is None) is stands


def test_a_manifest_written_otherwise_is_found(tmp_path: Path) -> None:
    """The same values in another order or spacing are other bytes."""
    text = encode_manifest(manifest({})).replace(b"\n", b"\n ", 1)
    raw = (
        sealing.build_tar_header("manifest.json", len(text))
        + text
        + sealing.build_tar_padding(len(text))
    )
    packed = zstandard.compress(raw + sealing.build_tar_end(len(raw)))
    (tmp_path / "x").write_bytes(packed + build_bundle_seal(hashlib.sha256(packed).digest()))
    assert list(sealing.inspect_bundle(tmp_path / "x")) == [
        "manifest.json: not in the form that podium writes"
    ]


@pytest.mark.parametrize("text", [b"", b"{}", b"[" * 100_000, b'{"format": "1"}', b"\xff\xfe"])
def test_a_manifest_that_is_none_is_told(tmp_path: Path, text: bytes) -> None:
    raw = (
        sealing.build_tar_header("manifest.json", len(text))
        + text
        + sealing.build_tar_padding(len(text))
    )
    packed = zstandard.compress(raw + sealing.build_tar_end(len(raw)))
    (tmp_path / "x").write_bytes(packed + build_bundle_seal(hashlib.sha256(packed).digest()))
    (problem,) = sealing.inspect_bundle(tmp_path / "x")
    assert "manifest.json" in problem
    assert "\n" not in problem


def test_a_manifest_of_no_end_is_not_read(tmp_path: Path) -> None:
    raw = sealing.build_tar_header("manifest.json", 7 << 30)
    packed = zstandard.compress(raw)
    (tmp_path / "x").write_bytes(packed + build_bundle_seal(hashlib.sha256(packed).digest()))
    assert "first member is not manifest.json" in next(iter(sealing.inspect_bundle(tmp_path / "x")))


def test_a_window_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=30)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packer.compress(b"x" * 1000) + packer.flush()
    (tmp_path / "x").write_bytes(packed + build_bundle_seal(hashlib.sha256(packed).digest()))
    assert "cannot be unpacked" in next(iter(sealing.inspect_bundle(tmp_path / "x")))
