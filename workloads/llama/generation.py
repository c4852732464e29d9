"""Greedy generation with continuous batching: sequences join and leave between two tokens.

Yu et al. 2022, "Orca: A Distributed Serving System for Transformer-Based Generative Models", OSDI
'22, section 3.1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch

from suite.errors import RequestError
from workloads.llama.model import LlamaNetwork
from workloads.llama.serving_layers import NewTokens, PromptBlock, ServingNetwork

PADDING_TOKEN: Final = 0
"""Stands behind the end of a prompt in a block; any would do, since nothing attends to it."""
WARM_UP_PROMPT: Final = (PADDING_TOKEN,)
WARM_UP_RELEASED_PARTS: Final = 16
"""A step of the warm-up is followed by one with a sixteenth fewer live rows."""
MAX_PADDED_SHARE: Final = 1.25
"""Tokens of a block of prompts, padding included, per token of its prompts."""
DEFAULT_PROMPT_TOKENS: Final = 8192
"""Tokens of prompts that one step reads: the context at `full`, so that a step delays the answers
beside it by no more than one prompt of the longest kind would.
"""


@dataclass(slots=True)
class LiveSequence:
    """A sequence that a row of the cache holds."""

    slot: int
    room: int
    """Tokens that may still be generated."""
    tokens: list[int]
    """Not cached yet: the prompt, then the newest token."""
    ignores_ends: bool = False
    """A token that ends answers is one like others."""
    cached: int = 0
    """Number of tokens in the cache."""


@dataclass(slots=True)
class TokenLists:
    """New tokens with their positions and their places in the cache."""

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def append_run(self, tokens: Sequence[int], first_position: int, places: Iterable[int]) -> None:
        """Append neighbouring tokens of one sequence."""
        self.tokens += tokens
        self.positions += range(first_position, first_position + len(tokens))
        self.places += places


class LlamaGenerator:
    """Generates answers in slots that are refilled one by one.

    Use it from one thread. An answer depends on its prompt alone, but for the rounding of products
    with another number of rows.

    Args:
        network: on the device that serves; its weights are copied once.
        slots: sequences that are live at once.
        longest: most tokens of a prompt and its answer together; at most the network's context.
        ends: tokens that end an answer; they are part of it.
        max_new_tokens: longest answer.
        dtype: type of weights and cache, fp32 or bf16.
        prompt_tokens: tokens of prompts that one step reads at most, unless one prompt alone has
            more; the others wait for the next step.
    """

    def __init__(
        self,
        network: LlamaNetwork,
        *,
        slots: int,
        longest: int,
        ends: Iterable[int],
        max_new_tokens: int,
        dtype: torch.dtype = torch.float32,
        prompt_tokens: int = DEFAULT_PROMPT_TOKENS,
    ) -> None:
        if longest > network.shape.context:
            raise RequestError(
                f"llama: sequences of {longest} tokens; the network's context has"
                f" {network.shape.context}"
            )
        self.slots, self.max_new_tokens = slots, max_new_tokens
        self.max_sequence_tokens, self.vocabulary_size = longest, network.shape.vocabulary
        self._ends = frozenset(ends)
        self._prompt_tokens = prompt_tokens
        with torch.inference_mode():
            self._network = ServingNetwork(network, slots, longest, dtype)
        self._used: set[int] = set()
        self._waiting: list[LiveSequence] = []
        self._rows: list[LiveSequence | None] = []
        self._last: tuple[NewTokens, torch.Tensor] | None = None
        """Input and output of the last step, as long as the live rows stay the same."""
        self._chosen: tuple[torch.Tensor, torch.Tensor] | None = None
        """Logits, R V, and tokens, R, of the last step."""

    @property
    def free_slots(self) -> list[int]:
        """Slots that take a prompt."""
        return [slot for slot in range(self.slots) if slot not in self._used]

    def warm_up(self) -> None:
        """Generate in all slots, then in fewer after each step, so that the framework can prepare
        every number of live rows up to 31, and beyond one in each neighbourhood: the cost grows
        with the slots, not with their square. Ends with all slots free.
        """
        for slot in range(self.slots):
            self.admit(slot, WARM_UP_PROMPT, self.slots + 1)
        released = 0
        while released < self.slots:
            self.step()
            live = self.slots - released
            for slot in range(released, released + max(1, live // WARM_UP_RELEASED_PARTS)):
                self.release(slot)
                released += 1

    def admit(
        self,
        slot: int,
        prompt: Sequence[int],
        max_new_tokens: int | None = None,
        *,
        ignores_ends: bool = False,
    ) -> None:
        """Put a prompt into a free slot; the next step reads it.

        RequestError if the prompt is empty, has no room for an answer, or has a token that the
        network does not embed; ValueError if the slot is not free.

        Args:
            slot: from 0.
            prompt: token ids.
            max_new_tokens: of this answer; None: the generator's limit. Both are cut where the
                sequence would exceed the longest one.
            ignores_ends: an answer goes on behind a token that ends answers.
        """
        if slot in self._used or not 0 <= slot < self.slots:
            raise ValueError(f"slot {slot} of {self.slots} is not free")
        room = self.max_sequence_tokens - len(prompt)
        if not prompt or room < 1:
            raise RequestError(
                f"llama: a prompt of {len(prompt)} tokens; allowed: 1 to"
                f" {self.max_sequence_tokens - 1}"
            )
        if min(prompt) < 0 or max(prompt) >= self.vocabulary_size:
            raise RequestError(
                f"llama: a prompt has tokens outside 0 to {self.vocabulary_size - 1}"
            )
        limit = self.max_new_tokens if max_new_tokens is None else max_new_tokens
        self._used.add(slot)
        self._waiting.append(LiveSequence(slot, min(limit, room), list(prompt), ignores_ends))

    def release(self, slot: int) -> None:
        """Free a slot, whether or not its answer has ended; ValueError if nothing is in it."""
        if slot not in self._used:
            raise ValueError(f"slot {slot} of {self.slots} is free")
        self._used.remove(slot)
        self._last = None
        self._waiting = [sequence for sequence in self._waiting if sequence.slot != slot]
        for row, sequence in enumerate(self._rows):
            if sequence is not None and sequence.slot == slot:
                self._rows[row] = None

    @torch.inference_mode()
    def step(self) -> Sequence[tuple[int, int, bool]]:
        """Generate one token for each live sequence.

        Returns:
            Slot, token, and whether it is the answer's last, for each sequence that got one: not
            for prompts that wait for the next step, nor for ended answers, whose slots stay taken
            until they are released. Empty if nothing is live.
        """
        new = self._prepare_tokens()
        if new is None:
            return ()
        self._chosen = None  # its logits make room for the next ones
        logit_RV = self._network.compute_logits(new)
        token_R = logit_RV.argmax(dim=-1)
        self._last, self._chosen = (new, token_R), (logit_RV, token_R)
        return [self._append_token(row, token) for row, token in enumerate(token_R.tolist())]

    @torch.inference_mode()
    def compute_log_probabilities(self) -> Sequence[float]:
        """Return the log-probability of each token of the last step, in its order; none before a
        step.
        """
        if self._chosen is None:
            return ()
        logit_RV, token_R = self._chosen
        chosen_R1 = logit_RV.float().log_softmax(dim=-1).gather(1, token_R.unsqueeze(1))
        values: list[float] = chosen_R1.squeeze(1).tolist()
        return values

    def _prepare_tokens(self) -> NewTokens | None:
        """Return the next input of the network; None if nothing is live."""
        if self._last is not None and not self._waiting:
            return self._network.advance_rows(*self._last)
        self._fill_rows(self._select_admitted())
        live = self._close_gaps()
        return self._build_new_tokens(live) if live else None

    def _append_token(self, row: int, token: int) -> tuple[int, int, bool]:
        """Note a new token; an ended sequence leaves its row."""
        sequence = self._rows[row]
        assert sequence is not None  # rows without one are behind those that the network ran
        sequence.cached += len(sequence.tokens)
        sequence.tokens = [token]
        sequence.room -= 1
        ended = sequence.room == 0 or (token in self._ends and not sequence.ignores_ends)
        if ended:
            self._rows[row] = self._last = None
        return sequence.slot, token, ended

    def _select_admitted(self) -> list[LiveSequence]:
        """Take the prompts that this step reads, in the order in which they were admitted."""
        taken = tokens = 0
        for sequence in self._waiting:
            tokens += len(sequence.tokens)
            if taken and tokens > self._prompt_tokens:
                break
            taken += 1
        admitted, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return admitted

    def _fill_rows(self, admitted: Iterable[LiveSequence]) -> None:
        """Give each sequence the first row without one."""
        gaps = [row for row, sequence in enumerate(self._rows) if sequence is None]
        for sequence in admitted:
            if gaps:
                self._rows[gaps.pop(0)] = sequence
            else:
                self._rows.append(sequence)

    def _close_gaps(self) -> list[LiveSequence]:
        """Move the last sequences into rows without one, so that live rows are neighbours; return
        them.
        """
        live = [row for row, sequence in enumerate(self._rows) if sequence is not None]
        gaps = [row for row in range(len(live)) if self._rows[row] is None]
        for gap, last in zip(gaps, reversed(live), strict=False):
            sequence = self._rows[gap] = self._rows[last]
            self._rows[last] = None
            if sequence is not None:
                self._network.move_row(last, gap, sequence.cached)
        self._rows = self._rows[: len(live)]
        return [sequence for sequence in self._rows if sequence is not None]

    def _build_new_tokens(self, live: Sequence[LiveSequence]) -> NewTokens:
        """Collect the newest token of each live row, then the prompts' other tokens."""
        lists, lengths = TokenLists(), []
        for row, sequence in enumerate(live):
            length = sequence.cached + len(sequence.tokens)
            place = row * self.max_sequence_tokens + length - 1
            lists.append_run(sequence.tokens[-1:], length - 1, (place,))
            lengths.append(length)
        prompts = [
            (row, sequence.tokens[:-1])
            for row, sequence in enumerate(live)
            if len(sequence.tokens) > 1
        ]
        blocks = [self._append_block(lists, group) for group in group_prompts(prompts)]
        columns = torch.tensor([lists.tokens, lists.positions, lists.places])
        token_N, position_N, place_N = columns.to(self._network.device)
        mask_R11S = None
        if min(lengths) != max(lengths):
            mask_R11S = self._network.build_mask(position_N[: len(live)], max(lengths))
        return NewTokens(
            token_N=token_N,
            position_N=position_N,
            place_N=place_N,
            rows=len(live),
            longest=max(lengths),
            mask_R11S=mask_R11S,
            blocks=blocks,
        )

    def _append_block(
        self, lists: TokenLists, group: Sequence[tuple[int, list[int]]]
    ) -> PromptBlock:
        """Append prompts, each with its row, padded to the length of the longest."""
        first, positions = len(lists.tokens), max(len(tokens) for _, tokens in group)
        for row, tokens in group:
            place, padding = row * self.max_sequence_tokens, positions - len(tokens)
            spare = [self._network.spare_place] * padding
            lists.append_run(
                [*tokens, *[PADDING_TOKEN] * padding],
                0,
                [*range(place, place + len(tokens)), *spare],
            )
        return PromptBlock(first=first, prompts=len(group), positions=positions)


def group_prompts(
    prompts: Iterable[tuple[int, list[int]]],
) -> list[list[tuple[int, list[int]]]]:
    """Distribute prompts, each with its row, over blocks of similar length."""
    groups: list[list[tuple[int, list[int]]]] = []
    tokens = 0
    for prompt in sorted(prompts, key=lambda each: len(each[1])):
        length = len(prompt[1])
        tokens += length
        if not groups or (len(groups[-1]) + 1) * length > MAX_PADDED_SHARE * tokens:
            groups.append([])
            tokens = length
        groups[-1].append(prompt)
    return groups


def generate_answers(
    generator: LlamaGenerator, prompts: Iterable[Sequence[int]]
) -> list[list[int]]:
    """Answer prompts, in their order, with every slot refilled as soon as its answer has ended;
    RequestError for a prompt that the generator refuses.
    """
    answers: list[list[int]] = []
    places: dict[int, int] = {}
    waiting = iter(prompts)
    while True:
        for slot, prompt in zip(generator.free_slots, waiting, strict=False):
            generator.admit(slot, prompt)
            places[slot] = len(answers)
            answers.append([])
        generated = generator.step()
        if not generated:
            return answers
        for slot, token, ended in generated:
            answers[places[slot]].append(token)
            if ended:
                generator.release(slot)
