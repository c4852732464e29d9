"""From parallel files to batches: encoded once, limits kept, broken text refused or left out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.errors import RequestError
from workloads.common.inputs.batches import SampleKey
from workloads.gnmt import data
from workloads.gnmt.scoring import GNMT_END_ID, GNMT_PAD_ID, GNMT_START_ID

MERGES = 10


def read(
    root: Path, cache: Path, *, skip: bool = False, merges: int = MERGES
) -> data.GNMTPreparedText:
    return data.prepare_gnmt_text(root, cache, merges, skip=skip)


def test_a_text_is_encoded_as_it_is_written(tiny_text: Path, text_cache: Path) -> None:
    """Both sides of each pair come back as they stand in the files, but for Moses' spaces."""
    found = read(tiny_text, text_cache)
    pairs = found.load_pairs(data.TEXT_TRAIN_SPLIT)
    lines = [(tiny_text / f"train.{suffix}").read_text().splitlines() for suffix in ("en", "de")]
    assert len(pairs) == 120 == len(lines[0])
    for index in (0, 17, 39):
        for tokens, line in zip(
            pairs.get_pair(index), (lines[0][index], lines[1][index]), strict=True
        ):
            assert (tokens[0], tokens[-1]) == (GNMT_START_ID, GNMT_END_ID)
            assert (
                found.subwords.decode_words(tokens[1:])
                == line.replace(",", " ,").replace(".", " .").split()
            )
    assert found.translations == tuple((tiny_text / "test.de").read_text().splitlines())
    assert found.references[0] == found.translations[0].replace(",", " ,").replace(".", " .")


def test_each_text_is_encoded_once(own_text: Path, tmp_path: Path) -> None:
    """The same bytes find what was prepared; other bytes, merges or treatment do not."""
    cache = tmp_path / "cache"
    first = read(own_text, cache)
    stamp = (first.folder / "train.en.tokens.npy").stat().st_mtime_ns
    assert (read(own_text, cache).folder / "train.en.tokens.npy").stat().st_mtime_ns == stamp
    others = [read(own_text, cache, merges=MERGES + 1), read(own_text, cache, skip=True)]
    (own_text / "train.en").write_text((own_text / "train.en").read_text().replace(".", "!"))
    others.append(read(own_text, cache))
    assert len({first.folder, *(other.folder for other in others)}) == 4


def test_the_vocabulary_is_learnt_from_the_training_text_alone(
    own_text: Path, tmp_path: Path
) -> None:
    """A vocabulary that has seen the test text would be statistics of the accuracy set."""
    first = read(own_text, tmp_path / "cache").subwords
    for suffix in ("en", "de"):
        (own_text / f"test.{suffix}").write_text("Something else entirely.\n")
    assert read(own_text, tmp_path / "cache").subwords.sha256 == first.sha256


def test_files_of_different_length_are_refused(own_text: Path, tmp_path: Path) -> None:
    with (own_text / "train.de").open("a") as file:
        file.write("one more\n")
    with pytest.raises(RequestError, match=r"train\.en has 120 lines, but train\.de has 121"):
        read(own_text, tmp_path / "cache")


@pytest.mark.parametrize(("line", "what"), [(b"\n", "empty"), (b"\xff\n", "not UTF-8")])
def test_broken_lines_are_refused_or_left_out(
    own_text: Path, tmp_path: Path, line: bytes, what: str
) -> None:
    """Found before the clock, named by file and line."""
    path = own_text / "train.en"
    path.write_bytes(b"".join([line, *path.read_bytes().splitlines(keepends=True)[1:]]))
    with pytest.raises(RequestError, match=rf"train\.en:1 is {what}; --set data\.skip_broken=true"):
        read(own_text, tmp_path / "cache")
    assert (
        len(read(own_text, tmp_path / "cache", skip=True).load_pairs(data.TEXT_TRAIN_SPLIT)) == 119
    )


def test_a_missing_split_is_refused(own_text: Path, tmp_path: Path) -> None:
    (own_text / "test.de").unlink()
    with pytest.raises(RequestError, match=r"test\.de: no such file"):
        read(own_text, tmp_path / "cache")


def test_long_pairs_are_left_out_of_training(tiny_text: Path, text_cache: Path) -> None:
    """As the reference drops them: either side may be too long, start and end count."""
    pairs = read(tiny_text, text_cache).load_pairs(data.TEXT_TRAIN_SPLIT)
    limit = int(np.median(pairs.lengths))
    short = pairs.drop_long_pairs(limit)
    assert 0 < len(short) < len(pairs)
    assert all(max(map(len, short.get_pair(index))) <= limit for index in range(len(short)))
    assert len(short) == sum(
        max(map(len, pairs.get_pair(index))) <= limit for index in range(len(pairs))
    )
    with pytest.raises(RequestError, match="max_sequence_length 2: every pair"):
        pairs.drop_long_pairs(2)


def test_long_sentences_are_cut_where_each_must_have_an_answer() -> None:
    tokens = np.array([GNMT_START_ID, 5, 6, 7, GNMT_END_ID], dtype=np.int32)
    assert data.truncate_gnmt_source(tokens, 5) is tokens
    assert data.truncate_gnmt_source(tokens, 4).tolist() == [GNMT_START_ID, 5, 6, GNMT_END_ID]


def test_shuffled_pairs_are_no_translations(tiny_text: Path, text_cache: Path) -> None:
    """The sources stay, each target is another's, and none is lost."""
    pairs = read(tiny_text, text_cache).load_pairs(data.TEXT_TRAIN_SPLIT)
    mixed = pairs.shuffle_translations(3)
    assert np.array_equal(mixed.chosen, pairs.chosen) and sorted(mixed.translation) == sorted(
        pairs.translation
    )
    assert (mixed.translation == pairs.translation).mean() < 0.2
    assert np.array_equal(
        mixed.lengths, [max(map(len, mixed.get_pair(index))) for index in range(len(mixed))]
    )


def test_batches_are_padded_behind_the_end(tiny_text: Path, text_cache: Path) -> None:
    samples = data.GNMTSamples(read(tiny_text, text_cache).load_pairs(data.TEXT_TRAIN_SPLIT))
    keys = [SampleKey(index=index, weight=float(index != 2)) for index in range(4)]
    batch = data.collate_gnmt_pairs([samples[key] for key in keys])
    assert batch.weight_N.tolist() == [1.0, 1.0, 0.0, 1.0]
    for row, index in enumerate(range(4)):
        source, target = samples.pairs.get_pair(index)
        assert batch.length_N[row] == len(source)
        assert batch.source_NS[row].tolist() == [
            *source,
            *[GNMT_PAD_ID] * (batch.source_NS.shape[1] - len(source)),
        ]
        assert batch.target_NT[row].tolist() == [
            *target,
            *[GNMT_PAD_ID] * (batch.target_NT.shape[1] - len(target)),
        ]


def test_pairs_are_read_page_by_page(tiny_text: Path, text_cache: Path) -> None:
    """WMT's four million pairs must not be copied by every worker process."""
    pairs = read(tiny_text, text_cache).load_pairs(data.TEXT_TRAIN_SPLIT)
    assert isinstance(replace(pairs).sources.tokens, np.memmap)
