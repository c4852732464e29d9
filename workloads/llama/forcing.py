"""How likely PyTorch finds given answers: one teacher-forced pass in fp32, and one for each known
cause of a difference (suite.loadgen.logprob_record: REFERENCE_COLUMNS).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from suite.loadgen.logprob_record import MAX_LOGPROB_ROWS, REFERENCE_FIELDS
from suite.workload import Run
from workloads.common.text.token_answers import unpack_token_ids
from workloads.llama.checkpoint import check_tokenizer_hash
from workloads.llama.model import LlamaNetwork
from workloads.llama.serving_set import load_serving_set
from workloads.llama.shape import DEFAULT_ROPE_THETA, LlamaShape, RopeScaling
from workloads.llama.weights import load_llama_checkpoint

# Legend: B sequences of a batch, T positions, V vocabulary, N tokens of answers.
FORCED_TOKENS: Final = 4096
"""Tokens of a batch, padding included: the logits of a vocabulary of 128,256 then need 2 GB."""
LLAMA_3_1_SCALING: Final = RopeScaling(factor=8.0, low=1.0, high=4.0, old_context=8192)
"""meta-llama/llama-models, models/llama3/model.py, apply_scaling."""
LLAMA_3_THETA: Final = 500_000.0
"""Grattafiori et al. 2024, section 3.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedAnswer:
    """An answer behind its prompt."""

    sample: int
    prompt: Sequence[int]
    tokens: Sequence[int]

    @property
    def sequence(self) -> list[int]:
        """Return prompt and answer."""
        return [*self.prompt, *self.tokens]


def force_llama_answers(run: Run, checkpoint: Path, answers: Mapping[int, bytes]) -> Any:
    """Return how likely PyTorch finds the tokens of answers to the serving set's prompts, an array
    (tokens,) of REFERENCE_FIELDS, by sample and place; RequestError for a checkpoint of another
    workload or tokenizer. Tokens outside the vocabulary, and what is longer than the context, are
    left out.
    """
    torch.set_num_threads(run.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    served = load_serving_set(run)
    check_tokenizer_hash(checkpoint, served.tokenizer_sha256)
    network = load_llama_checkpoint(checkpoint).to(run.device)
    return force_answers(network, select_forced_answers(served.prompts, answers, network.shape))


def force_answers(network: LlamaNetwork, forced: Sequence[ForcedAnswer]) -> Any:
    """Return the rows of answers."""
    import numpy

    rows = [(each.sample, place) for each in forced for place in range(len(each.tokens))]
    table = numpy.zeros(len(rows), numpy.dtype(list(REFERENCE_FIELDS)))
    if rows:
        table["sample"], table["place"] = numpy.array(rows).T
    starts = [[len(each.prompt)] * len(each.tokens) for each in forced]
    table["position"] = table["place"] + numpy.array(sum(starts, []), numpy.int32)
    table["fp32"], table["best"] = compute_forced_values(network, forced)
    for name, other, changed in iterate_known_causes(network, forced):
        table[name], _ = compute_forced_values(other, changed)
    return table


def select_forced_answers(
    prompts: Sequence[Sequence[int]], answers: Mapping[int, bytes], shape: LlamaShape
) -> list[ForcedAnswer]:
    """Return the answers that the network can be forced to give, as far as there is room."""
    forced, rows = list[ForcedAnswer](), 0
    for sample in sorted(answers):
        tokens = unpack_token_ids(answers[sample])
        if not 0 <= sample < len(prompts) or not tokens:
            continue
        each = ForcedAnswer(sample=sample, prompt=prompts[sample], tokens=tokens)
        rows += len(tokens)
        is_known = min(tokens) >= 0 and max(tokens) < shape.vocabulary
        if is_known and len(each.sequence) <= shape.context and rows <= MAX_LOGPROB_ROWS:
            forced.append(each)
    return forced


def iterate_known_causes(
    network: LlamaNetwork, forced: Sequence[ForcedAnswer]
) -> Iterator[tuple[str, LlamaNetwork, Sequence[ForcedAnswer]]]:
    """Yield, for each column but those of fp32, the network and the sequences that it is of. One
    copy of the weights exists at a time beside the network's own.
    """
    shape = network.shape
    scaling = None if shape.rope_scaling else LLAMA_3_1_SCALING
    theta = LLAMA_3_THETA if shape.rope_theta == DEFAULT_ROPE_THETA else DEFAULT_ROPE_THETA
    yield "other_scaling", reshape_positions(network, replace(shape, rope_scaling=scaling)), forced
    yield "other_base", reshape_positions(network, replace(shape, rope_theta=theta)), forced
    shorter = [replace(each, prompt=each.prompt[1:] or each.prompt) for each in forced]
    yield "shorter_prompt", network, shorter
    yield "fp16_weights", copy_rounded(network, torch.float16, torch.float32), forced
    yield "bf16_weights", copy_rounded(network, torch.bfloat16, torch.float32), forced
    yield "bf16", copy_rounded(network, torch.bfloat16, torch.bfloat16), forced


def reshape_positions(network: LlamaNetwork, shape: LlamaShape) -> LlamaNetwork:
    """Return a network with the same weights, which it shares, and other positions."""
    with torch.device("meta"):
        other = LlamaNetwork(shape)
    other.load_state_dict(network.state_dict(), assign=True)
    other.tie_output()
    return other.eval()


def copy_rounded(
    network: LlamaNetwork, rounded: torch.dtype, computed: torch.dtype
) -> LlamaNetwork:
    """Return a network whose weights are rounded to one format, and computed with in another."""
    with torch.device("meta"):
        other = LlamaNetwork(network.shape)
    state = {name: weight.to(rounded).to(computed) for name, weight in network.state_dict().items()}
    other.load_state_dict(state, assign=True)
    other.tie_output()
    return other.eval()


def compute_forced_values(network: LlamaNetwork, forced: Sequence[ForcedAnswer]) -> tuple[Any, Any]:
    """Return the log-probabilities of all tokens of answers, N, and those of the likeliest tokens
    in their places, as NumPy arrays in the order of the answers.
    """
    import numpy

    found: dict[int, tuple[Any, Any]] = {}
    for batch in iterate_batches(forced):
        found |= force_batch(network, batch)
    if not forced:
        return numpy.empty(0, numpy.float32), numpy.empty(0, numpy.float32)
    said, best = zip(*(found[each.sample] for each in forced), strict=True)
    return numpy.concatenate(said), numpy.concatenate(best)


def iterate_batches(forced: Sequence[ForcedAnswer]) -> Iterator[list[ForcedAnswer]]:
    """Yield answers of similar length, up to FORCED_TOKENS with padding."""
    batch: list[ForcedAnswer] = []
    for each in sorted(forced, key=lambda answer: len(answer.sequence)):
        if batch and (len(batch) + 1) * len(each.sequence) > FORCED_TOKENS:
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch


@torch.inference_mode()
def force_batch(network: LlamaNetwork, batch: Sequence[ForcedAnswer]) -> dict[int, tuple[Any, Any]]:
    """Return what `compute_forced_values` says of each answer, by sample."""
    longest = max(len(each.sequence) for each in batch)
    padded = [each.sequence + [0] * (longest - len(each.sequence)) for each in batch]
    device = network.lm_head.weight.device
    token_BT = torch.tensor(padded, device=device)
    logprob_BTV = network(token_BT[:, :-1]).float().log_softmax(dim=-1)
    said_BT = logprob_BTV.gather(2, token_BT[:, 1:, None]).squeeze(2).cpu().numpy()
    best_BT = logprob_BTV.amax(dim=-1).cpu().numpy()
    found = {}
    for row, each in enumerate(batch):
        places = slice(len(each.prompt) - 1, len(each.sequence) - 1)
        found[each.sample] = said_BT[row, places], best_BT[row, places]
    return found
