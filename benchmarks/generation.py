"""Compares tokens/s of podium's generator for `llama` with vLLM's CPU engine and with transformers'
`generate` on the same weights and prompts, alone and in a batch, and continuous batching with
static batches.

Random weights of smoke's size by default (`--layers`, `--width`, `--feed-forward` and others set a
larger one). For transformers all prompts and all answers have one length, so that both sides do
equal work without padding. Continuous and static batches are both podium's generator, on prompts
and answers of different lengths. A static batch begins together, and computes all of its rows until
the longest answer has ended, as `generate` does; only tokens that were asked for count. The note
"Against shrinking" has a static batch that drops what has ended.
Measurements of both sides alternate, because the machine's rate changes; each round answers the
same prompts. vLLM is called in a process of its own (`LLM.generate` with token ids), by the Python
of the environment that `--vllm` or PODIUM_VLLM names, and rests while podium measures; each side
times its own calls. Without one, the script says so at the end, with exit code 3. Answers of both
sides are compared token by token.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from common.figures import compare, show
from common.tiny import add_tiny_option, choose_size
from common.vllm_process import VllmProcess, find_vllm_python
from safetensors.torch import save_file

from suite.terms import Precision
from workloads.common import malloc
from workloads.common.detection import torchvision_import
from workloads.common.weights_description import WEIGHTS_FILE
from workloads.llama.checkpoint import CONFIG_FILE, write_json_document
from workloads.llama.generation import LlamaGenerator, generate_answers
from workloads.llama.model import LlamaNetwork
from workloads.llama.shape import LlamaShape, convert_shape_to_config
from workloads.llama.weights import SAFETENSORS_METADATA, load_llama_checkpoint

DTYPES = {Precision.FP32: torch.float32, Precision.BF16: torch.bfloat16}
SEED = 1
CONTEXT = 256
"""Positions of a row of the cache, at least."""
DEVIATION = 0.06
"""Of the random weights; the design's for smoke."""
MIXED_LENGTHS = {
    "news": ((51, 61), (3, 13), 2),
    "spread": ((12, 48), (1, 64), 1),
}
"""Shortest and longest prompt and answer of sequences that are mixed, and the step between two
lengths, all equally likely: those of smoke's generated news, and widely different ones.
"""
MIXED_ROUNDS = choose_size(8, 1)
"""Sequences per slot where continuous batching is compared."""

Request = tuple[list[int], int]
"""A prompt, and the number of tokens of its answer."""
Measure = Callable[[], float]
"""Answer all prompts; tokens/s."""


def build_network(given: argparse.Namespace) -> LlamaNetwork:
    """Load the network of a checkpoint, or build one with random weights."""
    if given.checkpoint:
        return load_llama_checkpoint(given.checkpoint)
    torch.manual_seed(SEED)
    shape = LlamaShape(
        layers=given.layers,
        width=given.width,
        heads=given.heads,
        key_value_heads=given.key_value_heads,
        feed_forward=given.feed_forward,
        vocabulary=given.vocabulary,
        context=max(CONTEXT, given.prompt + given.answer),
        rope_theta=500_000.0,
    )
    return LlamaNetwork(shape, DEVIATION).eval()


def equal_requests(given: argparse.Namespace, count: int) -> list[Request]:
    """Generate prompts and answers of one length."""
    draw = random.Random(SEED)
    return [
        ([draw.randrange(given.vocabulary) for _ in range(given.prompt)], given.answer)
        for _ in range(count)
    ]


def mixed_requests(given: argparse.Namespace, lengths: str, count: int) -> list[Request]:
    """Generate prompts and answers of different lengths."""
    draw = random.Random(SEED)
    prompts, answers, step = MIXED_LENGTHS[lengths]

    def prompt() -> list[int]:
        tokens = draw.randrange(prompts[0], prompts[1] + 1, step)
        return [draw.randrange(given.vocabulary) for _ in range(tokens)]

    return [(prompt(), draw.randrange(answers[0], answers[1] + 1, step)) for _ in range(count)]


def build_generator(network: LlamaNetwork, given: argparse.Namespace, slots: int) -> LlamaGenerator:
    """Build podium's side; no token ends an answer, so that lengths are as requested."""
    return LlamaGenerator(
        network,
        slots=slots,
        longest=network.shape.context,
        ends=(),
        max_new_tokens=given.answer,
        dtype=DTYPES[Precision(given.precision)],
    )


def answer(generator: LlamaGenerator, requests: Sequence[Request], *, static: bool) -> float:
    """Answer requests with continuous batching, or in static batches that shrink; return
    tokens/s.
    """
    waiting: Iterator[Request] = iter(requests)
    tokens, began = 0, time.perf_counter()
    while True:
        free = generator.free_slots
        if not static or len(free) == generator.slots:
            for slot, (prompt, longest) in zip(free, waiting, strict=False):
                generator.admit(slot, prompt, longest)
        generated = generator.step()
        if not generated:
            break
        tokens += len(generated)
        for slot, _, ended in generated:
            if ended:
                generator.release(slot)
    assert tokens == sum(longest for _, longest in requests)
    return tokens / (time.perf_counter() - began)


def answer_whole_batches(generator: LlamaGenerator, requests: Sequence[Request]) -> float:
    """Answer requests in static batches, each row until the longest answer has ended; return the
    tokens/s that were asked for.
    """
    batches = [
        requests[first : first + generator.slots]
        for first in range(0, len(requests), generator.slots)
    ]
    began = time.perf_counter()
    for batch in batches:
        longest = max(tokens for _, tokens in batch)
        answer(generator, [(prompt, longest) for prompt, _ in batch], static=True)
    return sum(tokens for _, tokens in requests) / (time.perf_counter() - began)


def build_theirs(
    network: LlamaNetwork, given: argparse.Namespace, requests: Sequence[Request]
) -> Measure:
    """Build transformers' network with the same weights, and its `generate`."""
    assert torchvision_import.torchvision  # transformers imports it, and it may not load alone
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    dtype = DTYPES[Precision(given.precision)]
    config = LlamaConfig.from_dict(convert_shape_to_config(network.shape, "float32"))
    model = LlamaForCausalLM(config)
    model.load_state_dict(network.state_dict())
    model = model.eval().to(dtype)
    asked = GenerationConfig(
        max_new_tokens=given.answer,
        eos_token_id=None,
        pad_token_id=0,
        bos_token_id=0,
        do_sample=False,
        use_cache=True,
    )
    prompt = torch.tensor([tokens for tokens, _ in requests])

    def measure() -> float:
        began = time.perf_counter()
        with torch.inference_mode():
            found = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), generation_config=asked
            )
        assert found.shape == (len(requests), given.prompt + given.answer)
        return len(requests) * given.answer / (time.perf_counter() - began)

    return measure


def measure_pairs(ours: Measure, theirs: Measure, pairs: int) -> tuple[list[float], list[float]]:
    """Warm both up, then measure them in turn."""
    ours(), theirs()
    measured = [(ours(), theirs()) for _ in range(pairs)]
    return [mine for mine, _ in measured], [other for _, other in measured]


def compare_with_transformers(given: argparse.Namespace, network: LlamaNetwork, batch: int) -> None:
    """Print the figure at one batch size."""
    requests = equal_requests(given, batch)
    generator = build_generator(network, given, batch)
    mine, other = measure_pairs(
        lambda: answer(generator, requests, static=False),
        build_theirs(network, given, requests),
        given.pairs,
    )
    title = f"batch {batch}: ours against transformers' generate; {given.aims[batch]} is the aim"
    notes = {"Lengths": f"prompts {given.prompt}, answers {given.answer} tokens"}
    show(title, compare(mine, other, "tokens/s"), given.form, describe(given, network) | notes)


def compare_with_static_batches(
    given: argparse.Namespace, network: LlamaNetwork, lengths: str
) -> None:
    """Print the figure of continuous batching."""
    requests = mixed_requests(given, lengths, MIXED_ROUNDS * given.slots)
    generator = build_generator(network, given, given.slots)

    def continuous() -> float:
        return answer(generator, requests, static=False)

    mine, other = measure_pairs(
        continuous, lambda: answer_whole_batches(generator, requests), given.pairs
    )
    shrinking = measure_pairs(
        continuous, lambda: answer(generator, requests, static=True), given.pairs
    )
    title = f"{given.slots} slots, {lengths}: continuous against static batches; 1.5 is the aim"
    (shortest, longest), (fewest, most), _ = MIXED_LENGTHS[lengths]
    notes = {
        "Lengths": f"prompts {shortest} to {longest}, answers {fewest} to {most} tokens",
        "Against shrinking": round(compare(*shrinking, "tokens/s").ratio, 4),
    }
    show(title, compare(mine, other, "tokens/s"), given.form, describe(given, network) | notes)


def compare_with_vllm(
    given: argparse.Namespace, network: LlamaNetwork, engine: VllmProcess, batch: int
) -> None:
    """Print the figure with as many requests in flight."""
    requests = equal_requests(given, batch)
    prompts = [prompt for prompt, _ in requests]
    generator = build_generator(network, given, batch)
    mine, (_, others) = (
        generate_answers(generator, prompts),
        engine.answer_prompts(prompts, given.answer),
    )

    def theirs() -> float:
        seconds, answers = engine.answer_prompts(prompts, given.answer)
        assert all(len(each) == given.answer for each in answers)
        return len(prompts) * given.answer / seconds

    measured = measure_pairs(lambda: answer(generator, requests, static=False), theirs, given.pairs)
    title = f"{batch} in flight: ours against vLLM's CPU engine; 1.0 is the aim"
    equal = sum(one == other for one, other in zip(mine, others, strict=True))
    notes = {
        "Lengths": f"prompts {given.prompt}, answers {given.answer} tokens",
        "Equal answers": f"{equal} of {batch}",
        "vLLM": f"{engine.version}, {'compiled' if given.compile else 'eager'}",
    }
    show(title, compare(*measured, "tokens/s"), given.form, describe(given, network) | notes)


def write_network(network: LlamaNetwork, given: argparse.Namespace, folder: Path) -> None:
    """Write the network as vLLM reads it, without a tokenizer."""
    dtype = DTYPES[Precision(given.precision)]
    config = convert_shape_to_config(network.shape, str(dtype).removeprefix("torch."))
    write_json_document(folder / CONFIG_FILE, config)
    state = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    save_file(state, folder / WEIGHTS_FILE, SAFETENSORS_METADATA)


def measure_vllm(given: argparse.Namespace, network: LlamaNetwork) -> None:
    """Print the figures against vLLM; end without it."""
    python = find_vllm_python(given.vllm)
    with tempfile.TemporaryDirectory() as folder:
        write_network(network, given, Path(folder))
        with VllmProcess(
            python,
            Path(folder),
            dtype=str(DTYPES[Precision(given.precision)]).removeprefix("torch."),
            longest=given.prompt + given.answer,
            slots=given.slots,
            threads=torch.get_num_threads(),
            compiled=given.compile,
        ) as engine:
            for batch in given.aims:
                compare_with_vllm(given, network, engine, batch)


def describe(given: argparse.Namespace, network: LlamaNetwork) -> dict[str, object]:
    """Say what was measured."""
    shape = network.shape
    return {
        "Network": f"{shape.layers} layers, width {shape.width},"
        f" {sum(weight.numel() for weight in network.parameters()) / 1e6:.3g} M weights",
        "Precision": given.precision,
        "Threads": torch.get_num_threads(),
    }


def read() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    parser.add_argument(
        "--pairs", type=int, default=choose_size(7, 1), help="pairs of measurements"
    )
    add_tiny_option(parser)
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: all cores")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument(
        "--slots", type=int, default=choose_size(16, 2), help="sequences of a batch"
    )
    parser.add_argument("--prompt", type=int, default=choose_size(56, 8), help="tokens of a prompt")
    parser.add_argument(
        "--answer", type=int, default=choose_size(64, 64), help="tokens of an answer"
    )
    parser.add_argument(
        "--vllm", default="", metavar="FOLDER", help="environment that vLLM is installed in"
    )
    parser.add_argument("--compile", action="store_true", help="let vLLM compile the network")
    parser.add_argument("--only", choices=["vllm"], help="compare with nothing else")
    parser.add_argument("--checkpoint", type=Path, help="folder of weights; random without one")
    for name, value in (
        ("layers", choose_size(3, 1)),
        ("width", choose_size(128, 32)),
        ("heads", 4),
        ("key-value-heads", 2),
        ("feed-forward", 256),
        ("vocabulary", 352),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help="of the network")
    return parser.parse_args()


def main() -> None:
    given = read()
    given.aims = {1: 1.5, given.slots: 2.5}
    malloc.keep_freed_memory()
    if given.threads:
        torch.set_num_threads(given.threads)
    network = build_network(given)
    if given.only is None:
        for batch in given.aims:
            compare_with_transformers(given, network, batch)
        for lengths in MIXED_LENGTHS:
            compare_with_static_batches(given, network, lengths)
    measure_vllm(given, network)


if __name__ == "__main__":
    main()
