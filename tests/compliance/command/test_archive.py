"""Bundles that nobody trusts: each refusal is one sentence, and nothing is written outside the
folder.
"""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compliance.bundle import archive
from compliance.bundle.archive import unpack_bundle
from suite.errors import JudgedError


def file(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as written:
        for member, content in members:
            written.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[[bytes], dict[str, bytes]]:
    """Unpack raw bytes, and give what lies in the folder then."""

    def run(packed: bytes) -> dict[str, bytes]:
        bundle, folder = tmp_path / "x.tar.zst", tmp_path / "inside" / "deep"
        bundle.write_bytes(packed)
        folder.mkdir(parents=True)
        unpack_bundle(bundle, folder)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }

    return run


def test_members_come_out_as_they_went_in(attempt: Callable[[bytes], dict[str, bytes]]) -> None:
    content = bytes(range(256)) * 5000
    found = attempt(
        zstandard.compress(
            tar(
                file("manifest.json", b"{}"),
                special("open", tarfile.DIRTYPE),
                file("open/a/b.txt", content),
            )
        )
    )
    assert found == {"manifest.json": b"{}", "open/a/b.txt": content}


@pytest.mark.parametrize(
    ("member", "word"),
    [
        (file("/etc/x"), "absolute"),
        (file("../x"), "leaves"),
        (file("a/../../x"), "leaves"),
        (file("a\\..\\x"), "foreign"),
        (file("C:/x"), "foreign"),
        (file("a\nb"), "control"),
        (file("."), "leaves"),
        (special("link", tarfile.SYMTYPE, "/etc/passwd"), "link"),
        (special("link", tarfile.LNKTYPE, "manifest.json"), "link"),
        (special("null", tarfile.CHRTYPE), "device"),
        (special("pipe", tarfile.FIFOTYPE), "device"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0].name,
)
def test_a_member_that_is_no_plain_file_below_the_root_is_refused(
    attempt: Callable[[bytes], dict[str, bytes]],
    tmp_path: Path,
    member: tuple[tarfile.TarInfo, bytes],
    word: str,
) -> None:
    with pytest.raises(JudgedError, match=word):
        attempt(zstandard.compress(tar(file("manifest.json"), member)))
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "inside" / "x").exists()


def test_a_file_behind_a_link_cannot_be_reached(
    attempt: Callable[[bytes], dict[str, bytes]],
) -> None:
    with pytest.raises(JudgedError):
        attempt(zstandard.compress(tar(special("way", tarfile.SYMTYPE, "/tmp"), file("way/x"))))


@pytest.mark.parametrize(
    ("packed", "word"),
    [
        (b"", "not a zstd"),
        (b"PK\x03\x04", "not a zstd"),
        (zstandard.compress(tar(file("a"), file("a"))), "twice"),
        (zstandard.compress(tar(file("a"), file("./a"))), "twice"),
        (zstandard.compress(tar(file("a"))) + b"more", "not a complete seal"),
        (
            zstandard.compress(tar(file("a"))) + zstandard.compress(tar(file("b"))),
            "not a complete seal",
        ),
        (zstandard.compress(tar(file("a")) + tar(file("b"))), "follow"),
        (zstandard.compress(tar(file("a", b"y" * 5000)))[:-20], "truncated"),
        (zstandard.compress(tar(file("a", b"y" * 5000))[:2000]), "cannot be unpacked|truncated"),
        (zstandard.compress(b"\0" * (80 << 20)), "far more"),
        (zstandard.compress(b"no tar at all" * 100), "cannot be unpacked"),
        (zstandard.compress(tar(file("a"), file("a/b"))), "cannot be unpacked"),
    ],
    ids=[
        "empty",
        "zip",
        "twice",
        "dot",
        "garbage behind",
        "second frame",
        "second tar",
        "cut frame",
        "cut tar",
        "bomb",
        "no tar",
        "file as folder",
    ],
)
def test_a_damaged_or_padded_archive_is_refused(
    attempt: Callable[[bytes], dict[str, bytes]], packed: bytes, word: str
) -> None:
    with pytest.raises(JudgedError, match=word):
        attempt(packed)


def test_a_folder_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(JudgedError, match="directory"):
        unpack_bundle(tmp_path, tmp_path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(position=st.integers(0, 10**6), value=st.integers(1, 255))
def test_a_flipped_byte_never_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    packed = bytearray(zstandard.compress(tar(file("a", b"abc" * 50), file("b/c", b"defg" * 90))))
    packed[position % len(packed)] ^= value
    (folder / "x").write_bytes(packed)
    try:
        unpack_bundle(folder / "x", folder / "out")
    except JudgedError as error:
        assert "\n" not in str(error)


def extended(record: bytes) -> bytes:
    """A header with one record for the member that follows."""
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, len(record)
    return member.tobuf() + record.ljust(512, b"\0")


@pytest.mark.parametrize(
    "raw",
    [
        extended(b"20 path=\xed\xa0\x80xxxxxxx\n") + tar(file("a")),
        extended(b"14 size=99999\n") * 5000 + tar(file("a")),
        extended(b"400 size=" + b"9" * 390 + b"\n") + tar(file("a")),
    ],
    ids=["surrogate", "headers without end", "digits"],
)
def test_a_header_that_breaks_its_reader_is_refused(
    attempt: Callable[[bytes], dict[str, bytes]], raw: bytes
) -> None:
    """tarfile lets the errors of decoding, of recursion and of numbers through."""
    with pytest.raises(JudgedError):
        attempt(zstandard.compress(raw))


def test_a_name_is_one_line_that_a_terminal_only_shows(
    attempt: Callable[[bytes], dict[str, bytes]],
) -> None:
    """A line end or an escape sequence in a name would write the verdict itself."""
    with pytest.raises(JudgedError, match="whole and valid") as caught:
        attempt(zstandard.compress(tar(file("a\nx.tar.zst: whole and valid\x1b[8m"))))
    assert str(caught.value).isprintable()


def stated(kind: bytes, size: int) -> bytes:
    """A header that states a size."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


def continued(blocks: int) -> bytes:
    """A sparse file whose map goes on for so many blocks: each holds 21 pieces."""
    member = bytearray(special("sparse", tarfile.GNUTYPE_SPARSE)[0].tobuf(tarfile.GNU_FORMAT))
    member[482] = 1
    member[148:156] = b"%06o\0 " % (sum(member[:148]) + 8 * 32 + sum(member[156:]))
    return (
        bytes(member)
        + (b"00000000001 00000000001 " * 21).ljust(504, b"\0")[:504].ljust(512, b"\1") * blocks
    )


def mapped(pieces: int) -> bytes:
    """A file whose content begins with a sparse map, as format 1.0 writes it."""
    records = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, len(records)
    content = b"%d\n" % pieces + b"1\n" * (2 * pieces)
    return member.tobuf() + records.ljust(512, b"\0") + tar(file("a", content))


LIMITED = """
import resource, sys
from pathlib import Path
from compliance.bundle import archive
from suite.errors import JudgedError
import compliance.kinds.podium.documents.bundle, zstandard
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (120 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    archive.unpack_bundle(Path(sys.argv[1]), Path(sys.argv[2]))
except JudgedError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "head",
    [
        *(stated(kind, 300 << 20) for kind in (b"x", b"g", b"X", b"L", b"K")),
        continued(700_000),
        mapped(60_000_000 // 4),
        (stated(b"g", 1024) + b"1023 comment=".ljust(1022, b"-") + b"\n\0") * 200_000,
    ],
    ids=["pax", "global", "Solaris", "name", "link", "sparse", "map", "many"],
)
def test_a_header_of_hundreds_of_megabytes_is_refused_in_little_memory(
    tmp_path: Path, head: bytes
) -> None:
    """tarfile reads each of them whole: up to eleven gigabytes for a bundle of half a megabyte."""
    packed = zstandard.ZstdCompressor(level=3).compress(
        file("ballast", bytes(400 * 512))[0].tobuf()
        + os.urandom(400 * 512)
        + head
        + b"\0" * max(0, (300 << 20) - len(head))
    )
    bundle, inside = tmp_path / "x.tar.zst", tmp_path / "inside"
    bundle.write_bytes(packed)
    told = subprocess.run(
        [sys.executable, "-c", LIMITED, str(bundle), str(inside)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "a member's header is larger than 65,536 bytes" in told.stdout, told.stderr
    assert [path.name for path in inside.iterdir()] == ["ballast"]


def test_a_name_of_many_letters_fits_into_a_header(
    attempt: Callable[[bytes], dict[str, bytes]],
) -> None:
    name = "/".join(["d" * 200] * 10)
    found = attempt(zstandard.compress(tar(file(f"{name}/a"), file(f"{name}/b", b"y" * 9000))))
    assert found == {f"{name}/a": b"x", f"{name}/b": b"y" * 9000}


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ((file(f"m{number}", b"") for number in range(1_002)), "does not name"),
        ((special(f"m{number}", tarfile.DIRTYPE) for number in range(1_002)), "does not name"),
        ((file(f"{number}/" + "d/" * 60 + "f", b"") for number in range(20)), "does not name"),
        ([file("d/" * 64 + "f")], "64 folders deep"),
        ([file("zeros", bytes(archive.MAX_UNNAMED_BYTES + 1))], "does not name"),
    ],
    ids=["files", "folders", "nested folders", "depth", "bytes"],
)
def test_what_the_manifest_does_not_name_is_refused_before_much_of_it_is_written(
    attempt: Callable[[bytes], dict[str, bytes]],
    tmp_path: Path,
    members: Iterable[tuple[tarfile.TarInfo, bytes]],
    word: str,
) -> None:
    """150,000 empty members took a minute of CPU time to unpack."""
    with pytest.raises(JudgedError, match=word):
        attempt(zstandard.compress(tar(file("manifest.json", b"{}"), *members)))
    assert len(list((tmp_path / "inside").rglob("*"))) <= archive.MAX_UNNAMED_MEMBERS + 2
    assert not (tmp_path / "inside" / "deep" / "zeros").exists()


def test_a_member_too_many_is_refused_although_the_manifest_names_it() -> None:
    counted = archive.MemberCount(bundle="x", named=frozenset(map(str, range(30_000))))
    with pytest.raises(JudgedError, match="more than 20,000 files and folders"):
        for number in range(30_000):
            counted.add_member(tarfile.TarInfo(str(number)), PurePosixPath(str(number)))
    assert len(counted.files) == archive.MAX_ARCHIVE_MEMBERS
