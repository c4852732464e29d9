"""The generator against the network without a cache, and its slots."""

from collections.abc import Sequence
from random import Random

import pytest
import torch

from suite.errors import RequestError
from workloads.llama.generation import LlamaGenerator, generate_answers, group_prompts
from workloads.llama.model import LlamaNetwork

from .conftest import END, OTHER_END, SHAPE

LONGEST_ANSWER = 12


def draw_prompts(count: int, longest: int = 40) -> list[list[int]]:
    draw = Random(3)
    return [
        [draw.randrange(3, SHAPE.vocabulary) for _ in range(draw.randint(1, longest))]
        for _ in range(count)
    ]


def build_generator(
    network: LlamaNetwork, slots: int, ends: Sequence[int] = (END, OTHER_END), **sizes: int
) -> LlamaGenerator:
    asked = {"longest": SHAPE.context, "max_new_tokens": LONGEST_ANSWER} | sizes
    return LlamaGenerator(network, slots=slots, ends=ends, **asked)


@torch.no_grad()
def answer_without_cache(
    network: LlamaNetwork, prompt: list[int], ends: Sequence[int] = (END, OTHER_END)
) -> list[int]:
    tokens = list(prompt)
    while len(tokens) - len(prompt) < LONGEST_ANSWER:
        tokens.append(int(network(torch.tensor([tokens]))[0, -1].argmax()))
        if tokens[-1] in ends:
            break
    return tokens[len(prompt) :]


def drain(generator: LlamaGenerator, answers: dict[int, list[int]]) -> None:
    """Step until nothing is live, without releasing anything."""
    while generated := generator.step():
        for slot, token, _ in generated:
            answers.setdefault(slot, []).append(token)


@pytest.mark.parametrize("slots", [1, 5, 16])
@pytest.mark.parametrize("prompt_tokens", [1, 60, 8192])
def test_an_answer_does_not_depend_on_its_neighbours(
    network: LlamaNetwork, slots: int, prompt_tokens: int
) -> None:
    """Padding, masks, moved rows and refilled slots must be invisible; alone without a cache is the
    definition.
    """
    ends = range(1, 8)
    prompts = draw_prompts(24)
    alone = [answer_without_cache(network, prompt, ends) for prompt in prompts]
    assert len({len(answer) for answer in alone}) > 3
    generator = build_generator(network, slots, ends, prompt_tokens=prompt_tokens)
    assert generate_answers(generator, prompts) == alone
    assert generate_answers(generator, prompts[::-1]) == alone[::-1]


def test_each_token_tells_how_likely_it_is(network: LlamaNetwork) -> None:
    """The logarithm is that of the network without a cache, for each row, and of its own token."""
    generator, prompts = build_generator(network, 3), draw_prompts(3)
    assert not generator.compute_log_probabilities()
    for slot, prompt in enumerate(prompts):
        generator.admit(slot, prompt)
    for _ in range(4):
        generated = generator.step()
        values = generator.compute_log_probabilities()
        for (slot, token, _), value in zip(generated, values, strict=True):
            with torch.no_grad():
                logit_V = network(torch.tensor([prompts[slot]]))[0, -1]
            assert value == pytest.approx(float(logit_V.log_softmax(0)[token]), abs=1e-5)
            prompts[slot].append(token)


def test_a_released_slot_is_refilled_while_others_go_on(network: LlamaNetwork) -> None:
    """A client that hangs up frees its slot, and the answers beside it stay the same."""
    prompts = draw_prompts(4)
    generator, answers = build_generator(network, 3, ()), dict[int, list[int]]()
    for slot in range(3):
        generator.admit(slot, prompts[slot])
    for slot, token, _ in [*generator.step(), *generator.step()]:
        answers.setdefault(slot, []).append(token)
    generator.release(0)
    generator.admit(0, prompts[3])
    answers[0] = []
    drain(generator, answers)
    expected = {slot: answer_without_cache(network, prompts[slot], ()) for slot in (1, 2)}
    assert answers == expected | {0: answer_without_cache(network, prompts[3], ())}


def test_a_slot_that_nobody_refills_leaves_the_batch(network: LlamaNetwork) -> None:
    """The first of five ends at once; the last one moves into its row."""
    prompts = draw_prompts(5)
    generator, answers = build_generator(network, 5, ()), dict[int, list[int]]()
    for slot, prompt in enumerate(prompts):
        generator.admit(slot, prompt, 1 + slot)
    drain(generator, answers)
    assert answers == {
        slot: answer_without_cache(network, prompt, ())[: 1 + slot]
        for slot, prompt in enumerate(prompts)
    }


def test_an_answer_goes_on_behind_an_end_where_ends_are_ignored(network: LlamaNetwork) -> None:
    """Beside one that ends: its tokens are those of a network without ends."""
    prompts, ends = draw_prompts(24), range(1, 8)
    alone = [answer_without_cache(network, prompt, ends) for prompt in prompts]
    place = next(place for place, answer in enumerate(alone) if len(answer) < LONGEST_ANSWER)
    generator, answers = build_generator(network, 2, ends), dict[int, list[int]]()
    generator.admit(0, prompts[place], ignores_ends=True)
    generator.admit(1, prompts[place])
    drain(generator, answers)
    assert answers[1] == alone[place]
    assert answers[0] == answer_without_cache(network, prompts[place], ())
    assert len(answers[0]) == LONGEST_ANSWER


def test_a_slot_is_released_before_its_prompt_is_read(network: LlamaNetwork) -> None:
    generator = build_generator(network, 2)
    generator.admit(1, [5, 6])
    generator.release(1)
    assert generator.free_slots == [0, 1]
    assert generator.step() == ()


def test_the_first_step_gives_the_first_token(network: LlamaNetwork) -> None:
    """TTFT ends there: a step that reads prompts and returns nothing would shift it by one token."""
    generator = build_generator(network, 2)
    generator.admit(1, [5, 6])
    generator.admit(0, [7])
    assert sorted(slot for slot, _, _ in generator.step()) == [0, 1]


def test_an_answer_ends_with_its_end_token_or_at_the_limit(network: LlamaNetwork) -> None:
    """An endless generation is cut; an end token is part of the answer, and its last."""
    prompts = draw_prompts(24)
    answers = generate_answers(build_generator(network, 4, range(1, 8)), prompts)
    lengths = [len(answer) for answer in answers]
    assert max(lengths) == LONGEST_ANSWER
    assert min(lengths) < LONGEST_ANSWER
    for answer in answers:
        assert not set(answer[:-1]) & set(range(1, 8))
        assert len(answer) == LONGEST_ANSWER or answer[-1] in range(1, 8)


def test_a_sequence_does_not_outgrow_its_row(network: LlamaNetwork) -> None:
    """The next row would be overwritten."""
    generator = build_generator(network, 2, (), longest=20)
    prompts = [[5] * 16, [6] * 19]
    alone = [answer_without_cache(network, prompt, ()) for prompt in prompts]
    assert generate_answers(generator, prompts) == [alone[0][:4], alone[1][:1]]


def test_bf16_generates(network: LlamaNetwork) -> None:
    """Rotations are complex numbers, which bf16 does not have."""
    generator = LlamaGenerator(
        network, slots=4, longest=64, ends=(), max_new_tokens=4, dtype=torch.bfloat16
    )
    prompts = draw_prompts(8)
    answers = generate_answers(generator, prompts)
    alone = [answer_without_cache(network, prompt, ())[:1] for prompt in prompts]
    assert sum(answer[:1] == first for answer, first in zip(answers, alone, strict=True)) >= 6


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ([], "a prompt of 0 tokens; allowed: 1 to 95"),
        ([5] * 96, "a prompt of 96 tokens; allowed: 1 to 95"),
        ([5, 64], "a prompt has tokens outside 0 to 63"),
        ([-1], "a prompt has tokens outside 0 to 63"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused(
    network: LlamaNetwork, prompt: list[int], said: str
) -> None:
    """Without the check, a token beyond the embedding ends in a trap of the device."""
    generator = build_generator(network, 1)
    with pytest.raises(RequestError, match=said):
        generator.admit(0, prompt)
    assert generator.free_slots == [0]


def test_slots_are_not_confused(network: LlamaNetwork) -> None:
    """A caller's mistake would mix two answers."""
    generator = build_generator(network, 2)
    generator.admit(0, [5])
    for slot in (0, 2, -1):
        with pytest.raises(ValueError, match="is not free"):
            generator.admit(slot, [5])
    with pytest.raises(ValueError, match="is free"):
        generator.release(1)


def test_a_row_is_no_longer_than_the_context(network: LlamaNetwork) -> None:
    with pytest.raises(RequestError, match="sequences of 97 tokens; the network's context has 96"):
        build_generator(network, 1, longest=97)


def test_blocks_hold_prompts_of_similar_length() -> None:
    """Padding is work for nothing."""
    prompts = [(row, [0] * length) for row, length in enumerate((50, 3, 47, 4, 90, 4, 1))]
    groups = group_prompts(prompts)
    assert [[len(tokens) for _, tokens in group] for group in groups] == [
        [1],
        [3, 4, 4],
        [47, 50],
        [90],
    ]


def test_the_warm_up_of_many_slots_skips_numbers_of_rows(
    network: LlamaNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each number up to 31; beyond, a sixteenth fewer at a time."""
    generator, rows = build_generator(network, 100, ends=()), list[int]()

    def step_noting(self: LlamaGenerator) -> Sequence[tuple[int, int, bool]]:
        generated = step(self)
        rows.append(len(generated))
        return generated

    step = LlamaGenerator.step
    monkeypatch.setattr(LlamaGenerator, "step", step_noting)
    generator.warm_up()
    assert rows[:4] == [100, 94, 89, 84]
    assert rows[-31:] == [*range(31, 0, -1)]
    assert len(rows) < 60 and generator.free_slots == [*range(100)]
