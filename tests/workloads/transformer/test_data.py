"""From parallel files to batches of subtokens: limits, vocabularies, bad input."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.errors import RequestError
from suite.workload import Run
from workloads.common.inputs.batches import OptimizerStep, SampleKey
from workloads.common.text.parallel_text import ParallelCorpus
from workloads.transformer import data, subwords
from workloads.transformer.data import TransformerPairs
from workloads.transformer.recipe import TransformerRecipe

MakeRun = Callable[..., Run]


def sentences(*lengths: tuple[int, int]) -> TransformerPairs:
    """Pairs of given lengths, each of them with its end mark."""
    made = [[np.array([*range(2, length + 1), 1], np.int32) for length in pair] for pair in lengths]
    return TransformerPairs(
        sources=[pair[0] for pair in made], targets=[pair[1] for pair in made], corpus=len(made)
    )


def recipe(make_run: MakeRun, **settings: object) -> TransformerRecipe:
    return TransformerRecipe.build_from_settings(make_run(**settings).settings)


def plan_steps(
    pairs: TransformerPairs,
    chosen: TransformerRecipe,
    seed: int,
    epoch: int,
    rank: int = 0,
    world_size: int = 1,
) -> list[OptimizerStep]:
    """All steps of an epoch."""
    return [
        data.plan_transformer_step(pairs, chosen, batch_N, epoch, rank, world_size)
        for batch_N in data.plan_transformer_batches(pairs, chosen, seed, epoch)
    ]


def test_pairs_are_padded_side_by_side() -> None:
    """Each side to its own longest sentence; a pair without weight has no target tokens."""
    batch = sentences((3, 2), (2, 4)).collate_pairs(
        [SampleKey(index=1), SampleKey(index=0, weight=0.0)]
    )
    assert batch.source_NS.tolist() == [[2, 1, 0], [2, 3, 1]]
    assert batch.target_NT.tolist() == [[2, 3, 4, 1], [0, 0, 0, 0]]
    assert batch.token_X.tolist() == [0, 1, 2, 3]
    assert sentences((1, 1), (1, 3)).collate_pairs(
        [SampleKey(index=0), SampleKey(index=1)]
    ).token_X.tolist() == [0, 3, 4, 5]


def test_batches_hold_the_tokens_that_were_asked_for(make_run: MakeRun) -> None:
    """Padding counted, by the longer side, from buckets that grow by a tenth."""
    rng = np.random.default_rng(1)
    made = sentences(*[(int(a), int(b)) for a, b in rng.integers(1, 60, (400, 2))])
    chosen = recipe(make_run, global_batch_size=300)
    steps = plan_steps(made, chosen, 1, 1)
    assert sorted(
        key.index for step in steps for key in step.micro_batches[0] if key.weight
    ) == list(range(400))
    longest = made.pair_lengths
    for step in steps:
        lengths = [longest[key.index] for key in step.micro_batches[0] if key.weight]
        assert len(lengths) * max(lengths) <= 300
        assert max(lengths) <= max(8, min(lengths) * 1.1 + 1)


def test_ranks_share_each_batch(make_run: MakeRun) -> None:
    """As many steps on each, together what one process has; the divisor is that of all ranks."""
    made, chosen = (
        sentences(*[(length % 20 + 1, 5) for length in range(90)]),
        recipe(make_run, global_batch_size=100),
    )
    alone = plan_steps(made, chosen, 3, 2)
    ranks = [plan_steps(made, chosen, 3, 2, rank, 2) for rank in range(2)]
    for number, step in enumerate(alone):
        mine = [key.index for rank in ranks for key in rank[number].micro_batches[0] if key.weight]
        assert sorted(mine) == sorted(key.index for key in step.micro_batches[0] if key.weight)
        assert all(len(rank[number].micro_batches) == 1 for rank in ranks)
    planned = data.plan_transformer_batches(made, chosen, 3, 2)
    assert sum(made.count_target_tokens(batch_N) for batch_N in planned) == 5 * 90


def test_micro_batches_share_a_batch(make_run: MakeRun) -> None:
    """Each holds at most the tokens that were asked for, padding counted; together they are what
    one has without the setting, on one rank and on two.
    """
    lengths = np.random.default_rng(2).integers(1, 60, (300, 2))
    made = sentences(*[(int(source), int(target)) for source, target in lengths])
    chosen = recipe(make_run, global_batch_size=600, data__micro_tokens=200)
    assert recipe(make_run, global_batch_size=600).micro_tokens == 600
    whole = plan_steps(made, recipe(make_run, global_batch_size=600), 3, 2)
    for world_size in (1, 2):
        ranks = [plan_steps(made, chosen, 3, 2, rank, world_size) for rank in range(world_size)]
        for step, *shares in zip(whole, *ranks, strict=True):
            parts = [part for share in shares for part in share.micro_batches]
            assert sorted(key.index for part in parts for key in part if key.weight) == sorted(
                key.index for key in step.micro_batches[0] if key.weight
            )
            assert {share.samples for share in shares} == {step.samples}
            assert len({len(share.micro_batches) for share in shares}) == 1
            for part in parts:
                taken = [made.pair_lengths[key.index] for key in part if key.weight]
                assert len(taken) <= 1 or len(taken) * max(taken) <= 200
    assert max(len(step.micro_batches) for step in plan_steps(made, chosen, 3, 2)) > 2


@pytest.mark.parametrize(
    ("method", "lengths"), [("discard", [(3, 4)]), ("truncate", [(3, 4), (5, 2), (2, 5)])]
)
def test_sentences_over_the_limit(
    make_run: MakeRun, method: str, lengths: list[tuple[int, int]]
) -> None:
    """Left out with their translation, or cut off with their end mark kept; the limit counts the
    end mark.
    """
    text = data.load_text_with_vocabulary(make_run(data__vocabulary=40))
    one = text.words.encode_text("b")
    corpus = ParallelCorpus(
        split="train", sources=("ba"[:2], "b" * 9, "b"), targets=("bab", "b", "b" * 9)
    )
    made = TransformerPairs(
        sources=data.encode_transformer_lines(text.words, corpus.sources),
        targets=data.encode_transformer_lines(text.words, corpus.targets),
        corpus=len(corpus),
    )
    limit = max(len(made.sources[0]), len(made.targets[0]))
    found = data.limit_pair_lengths(
        text.root, made, recipe(make_run, max_sequence_length=limit, data__over_length=method)
    )
    assert len(found) == len(lengths) and found.corpus == found.shuffle_translations(1).corpus == 3
    assert all(
        len(side) <= limit and side[-1] == subwords.EOS_ID
        for side in (*found.sources, *found.targets)
    )
    assert one and (method == "discard") == (len(found) == 1)


def test_nothing_below_the_limit_is_told(make_run: MakeRun) -> None:
    """An empty epoch would train nothing, for ever."""
    run = make_run(max_sequence_length=2)
    text = data.load_text_with_vocabulary(run)
    with pytest.raises(RequestError, match="max_sequence_length 2"):
        data.limit_pair_lengths(
            text.root,
            data.read_encoded_pairs(data.create_encoded_text_folder(run, text), "train"),
            TransformerRecipe.build_from_settings(run.settings),
        )


@pytest.mark.slow
def test_the_vocabulary_lies_beside_the_data(own_small: Path, make_run: MakeRun) -> None:
    """Made once, of both languages, and read again; another size is another file."""
    text = data.load_text_with_vocabulary(make_run(data=own_small))
    assert text.vocabulary == own_small / "vocab.ende.200"
    assert subwords.read_subtoken_vocabulary(text.vocabulary).subtokens == text.words.subtokens
    stamp = text.vocabulary.stat().st_mtime_ns
    assert (
        data.load_text_with_vocabulary(make_run(data=own_small)).vocabulary_sha256
        == text.vocabulary_sha256
    )
    assert text.vocabulary.stat().st_mtime_ns == stamp
    assert (
        data.load_text_with_vocabulary(
            make_run(data=own_small, data__vocabulary=90)
        ).vocabulary_sha256
        != text.vocabulary_sha256
    )


def test_a_given_vocabulary_is_taken(own_small: Path, make_run: MakeRun) -> None:
    """The reference's own file, put beside WMT, is what numbers the subtokens."""
    subwords.build_subtoken_vocabulary(["abc abc abd"], 20).write_vocabulary(
        own_small / "vocab.ende.200"
    )
    run = make_run(data=own_small)
    with pytest.raises(RequestError, match="not in any subtoken"):
        data.encode_transformer_lines(
            subwords.SubtokenVocabulary([*subwords.RESERVED_SUBTOKENS, "a", "_"]), ["abc"]
        )
    assert len(data.load_text_with_vocabulary(run).words) < 60


def test_characters_outside_the_vocabulary_are_spelt(make_run: MakeRun) -> None:
    """As code points: no text is lost, and none stops a run."""
    text = data.load_text_with_vocabulary(make_run())
    assert (
        text.words.decode_ids(data.encode_transformer_lines(text.words, ["Ωmega ☃"])[0].tolist())
        == "Ωmega ☃"
    )


def test_several_may_ask_for_the_vocabulary_at_once(own_small: Path, make_run: MakeRun) -> None:
    """The ranks of one machine start together."""
    found: list[str] = []
    run = make_run(data=own_small)
    threads = [
        threading.Thread(
            target=lambda: found.append(data.load_text_with_vocabulary(run).vocabulary_sha256)
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The vocabulary belongs beside the data; there is no second place for it."""
    with pytest.raises(RequestError, match=r"vocab\.ende\.9.*cannot be written"):
        data.ensure_vocabulary_file(
            tmp_path / "nowhere" / "vocab.ende.9",
            9,
            lambda: ParallelCorpus(split="train", sources=(), targets=()),
        )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"one\ntwo\n", "train.en has 2 lines"),
        (b"a\n\xff\xfe\n" + b"x\n" * 46, "train.en:2 is not UTF-8"),
    ],
)
def test_bad_text_is_refused_before_the_run(
    own_small: Path, make_run: MakeRun, content: bytes, told: str
) -> None:
    """Files of different length, broken encodings: named, with what to do."""
    (own_small / "train.en").write_bytes(content)
    run = make_run(data=own_small)
    with pytest.raises(RequestError, match=told):
        data.load_text_with_vocabulary(run)


def test_empty_lines_are_learnt_and_not_evaluated(own_small: Path, make_run: MakeRun) -> None:
    """WMT17 has some, which the reference trains on; a reference translation that is empty would be
    no reference.
    """
    lines = (own_small / "train.en").read_bytes().split(b"\n")
    (own_small / "train.en").write_bytes(b"\n".join([b"", *lines[1:]]))
    run = make_run(data=own_small)
    text, corpus = data.load_text_with_vocabulary(run), data.read_training_corpus(run, own_small)
    assert len(corpus) == 48 and data.read_encoded_pairs(
        data.create_encoded_text_folder(run, text), "train"
    ).sources[0].tolist() == [subwords.EOS_ID]
    (own_small / "test.de").write_bytes(
        b"\n" + (own_small / "test.de").read_bytes().partition(b"\n")[2]
    )
    with pytest.raises(RequestError, match="test.de:1 is empty"):
        data.read_test_corpus(run, own_small)


def test_broken_lines_are_left_out_where_that_is_asked_for(
    own_small: Path, make_run: MakeRun
) -> None:
    """With their translations: line i stays the translation of line i."""
    lines = (own_small / "train.en").read_bytes().split(b"\n")
    (own_small / "train.en").write_bytes(b"\n".join([b"\xff", *lines[1:]]))
    run = make_run(data=own_small, data__skip_broken=True)
    found = data.read_training_corpus(run, own_small)
    assert len(found) == 47
    assert found.targets[0] == (own_small / "train.de").read_text("utf-8").split("\n")[1]


def test_an_evaluation_has_each_sentence_once() -> None:
    """Over all ranks, those of like length together."""
    sources = [
        np.ones(length, np.int32) for length in np.random.default_rng(1).integers(1, 50, 300)
    ]
    parts = [data.plan_translation_batches(sources, rank, 3) for rank in range(3)]
    assert sorted(index for part in parts for batch in part for index in batch) == list(range(300))
    assert (
        max(len(sources[batch[-1]]) - len(sources[batch[0]]) for part in parts for batch in part)
        < 49
    )


def test_the_embedded_text_is_made_once(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into the cache, in the layout that `--data` has."""
    monkeypatch.setattr(
        data.synthetic_language,
        "FAR_LANGUAGE",
        replace(data.synthetic_language.FAR_LANGUAGE, train=30, test=6),
    )
    run = make_run(data=None)
    root = data.load_text_with_vocabulary(run).root
    assert {path.name for path in root.iterdir()} >= {
        "train.en",
        "train.de",
        "test.en",
        "test.de",
        "vocab.ende.200",
    }
    assert root.parent == run.cache and data.load_text_with_vocabulary(run).root == root
