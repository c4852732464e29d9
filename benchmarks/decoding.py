"""Compares beam search of podium's Transformer with Hugging Face `generate` on a network of the
same size, both with random weights.

Big on both sides (6 + 6 layers, 1024, 4096, 16 heads, 33,708 subtokens), fp32, beam 4, the same
sources, and translations of the same forced length, so that both do equal work; each side in its
own process, alternating. The JSON contains the cost of a token at each position of our side, which
should not grow with the tokens decoded so far. `--plot FILE` draws it.
"""

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from common.figures import compare, show
from common.tiny import add_tiny_option, choose_size

BEAM, ALPHA = 4, 0.6
NO_END = -1
"""An end mark that no network outputs, so that the length is forced."""
BINS = 8
"""Number of parts of a translation for which the cost per token is reported."""

Translate = Callable[[], list[float]]
"""Translate the batch once; milliseconds of each position where they are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedShape:
    """The sizes of both networks."""

    layers: int = 6
    width: int = 1024
    filter: int = 4096
    heads: int = 16
    vocabulary: int = 33708


BIG = choose_size(
    DecodedShape(), DecodedShape(layers=2, width=32, filter=64, heads=4, vocabulary=50)
)


def sources(batch: int, length: int, vocabulary: int) -> np.ndarray:
    """Generate the same sentences for both sides."""
    return np.random.default_rng(1).integers(4, vocabulary - 1, (batch, length))


def ours(
    batch: int, length: int, device: str, sizes: DecodedShape = BIG, *, graphs: bool = True
) -> Translate:
    """Our network and search, served by the torch engine as under LoadGen; on a GPU through CUDA
    graphs, unless they are left out.
    """
    import torch

    from harness.engines.torch import TorchEngine
    from suite.engine import Plan
    from suite.terms import Precision
    from workloads.transformer.inference import record_torch_steps
    from workloads.transformer.model import (
        TransformerNetwork,
        TransformerServingDecoderStep,
        TransformerServingEncoder,
    )
    from workloads.transformer.recipe import DecodingParameters, TransformerShape
    from workloads.transformer.system_under_test import describe_transformer_networks
    from workloads.transformer.translation.beam_search import TranslationBeams
    from workloads.transformer.translation.decoding import TransformerTranslator
    from workloads.transformer.translation.torch_tensors import TorchConverter

    torch.manual_seed(1)
    shape, tensors = (
        TransformerShape(**asdict(sizes)),
        TorchConverter(device),
    )
    model = TransformerNetwork(shape)
    plan = Plan(
        device=device,
        precision=Precision.FP32,
        threads=torch.get_num_threads(),
        max_batch=batch,
        cache=Path(),
        options={"engine.cuda_graphs": graphs},
    )
    networks = describe_transformer_networks(
        "torch",
        TransformerServingEncoder(model),
        TransformerServingDecoderStep(model),
        tensors.copy_to_device,
        shape,
        BEAM,
    )
    encoder, decoder = (TorchEngine().compile(network, plan).open() for network in networks)
    decoding = DecodingParameters(beam=BEAM, alpha=ALPHA, extra_length=0)
    recorded = record_torch_steps(encoder, decoder, tensors, decoding, batch, length)
    translator = TransformerTranslator(tensors, encoder, decoder, decoding, recorded)

    source_NS = sources(batch, length, sizes.vocabulary)

    def translate() -> list[float]:
        beams = TranslationBeams(np.full(batch, length), BEAM, start=0, end=NO_END, alpha=ALPHA)
        with tensors.enter_inference_mode():
            step = translator.build_continuation_step(source_NS, length)
            times = [time.perf_counter()]
            while not beams.done_B.all():
                beams.extend_hypotheses(*step(beams))
                times.append(time.perf_counter())
        assert [len(tokens) for tokens in beams.list_best_translations()] == [length] * batch
        return [(after - before) * 1e3 for before, after in zip(times, times[1:], strict=False)]

    return translate


def theirs(batch: int, length: int, device: str, sizes: DecodedShape = BIG) -> Translate:
    """Marian's network in transformers, and its `generate`."""
    import torch

    from workloads.common.detection import torchvision_import

    assert torchvision_import.torchvision  # transformers imports it, and it may not load alone
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    torch.manual_seed(1)
    parts = {
        "layers": sizes.layers,
        "ffn_dim": sizes.filter,
        "attention_heads": sizes.heads,
    }
    sides = {
        f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in parts.items()
    }
    config = MarianConfig(
        vocab_size=sizes.vocabulary,
        d_model=sizes.width,
        activation_function="relu",
        max_position_embeddings=512,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
        **sides,
    )
    model = MarianMTModel(config).eval().to(device)
    asked = GenerationConfig(
        num_beams=BEAM,
        length_penalty=ALPHA,
        max_new_tokens=length,
        eos_token_id=None,
        pad_token_id=0,
        decoder_start_token_id=0,
        do_sample=False,
        use_cache=True,
    )
    model.generation_config = asked  # what is None there would be taken from the model's own
    source = torch.from_numpy(sources(batch, length, sizes.vocabulary)).to(device)

    def translate() -> list[float]:
        with torch.inference_mode():
            found = model.generate(
                source, attention_mask=torch.ones_like(source), generation_config=asked
            ).cpu()
        assert found.shape == (batch, length + 1)
        return []

    return translate


SIDES = {"ours": ours, "ours, eager": partial(ours, graphs=False), "theirs": theirs}


def side(name: str, batch: int, length: int, device: str, threads: int, pipe: Connection) -> None:
    """Translate as often as requested; reply with tokens per second and the milliseconds of each
    position.
    """
    import torch

    if threads:
        torch.set_num_threads(threads)
    translate = SIDES[name](batch, length, device)
    while pipe.recv():
        began = time.perf_counter()
        positions = translate()
        pipe.send((batch * length / (time.perf_counter() - began), positions))


class Side:
    """One side in its own process."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(
            target=side,
            args=(name, given.batch, given.length, given.device, given.threads, far),
            daemon=True,
        )
        self.process.start()
        far.close()

    def once(self) -> tuple[float, list[float]]:
        """Translate the batch once."""
        self.pipe.send(True)
        found: tuple[float, list[float]] = self.pipe.recv()
        return found

    def end(self) -> None:
        """End the process."""
        self.pipe.send(False)
        self.process.join()


def by_position(runs: list[list[float]], batch: int) -> list[float]:
    """Milliseconds of a token at each position of the translation: medians over runs."""
    return [round(statistics.median(times) / batch, 4) for times in zip(*runs, strict=True)]


def by_part(token_ms: list[float]) -> list[float]:
    """The same in each part of the translation: means over its positions."""
    return [round(float(part.mean()), 4) for part in np.array_split(np.array(token_ms), BINS)]


def plot(path: Path, token_ms: list[float]) -> None:
    """Draw the cost of a token along the translation, each position and each part."""
    from matplotlib.figure import Figure as Canvas

    axes = Canvas(figsize=(6, 3)).subplots()
    axes.plot(token_ms, marker=".", linestyle="none", label="position")
    places = [float(part.mean()) for part in np.array_split(np.arange(len(token_ms)), BINS)]
    axes.plot(places, by_part(token_ms), marker="o", label="mean of a part")
    axes.set(
        xlabel="tokens decoded so far",
        ylabel="ms per token",
        ylim=(0, None),
        title=f"Decoding step, beam {BEAM}",
    )
    axes.legend()
    axes.figure.savefig(path, bbox_inches="tight")


def read() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    parser.add_argument(
        "--pairs", type=int, default=choose_size(3, 1), help="pairs of measurements"
    )
    add_tiny_option(parser)
    parser.add_argument("--batch", type=int, default=choose_size(8, 1), help="sentences")
    parser.add_argument(
        "--length",
        type=int,
        default=choose_size(64, 8),
        help="tokens of each source and of each translation",
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--eager", action="store_true", help="ours without CUDA graphs")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: all cores")
    parser.add_argument(
        "--plot", type=Path, help="file to draw the cost of a token into (matplotlib)"
    )
    return parser.parse_args()


def main() -> None:
    given = read()
    mine = Side("ours, eager" if given.eager else "ours", given)
    other = Side("theirs", given)
    for one in (mine, other):
        one.once()  # warm-up
    runs = [(mine.once(), other.once()) for _ in range(given.pairs)]
    figure = compare([first[0] for first, _ in runs], [second[0] for _, second in runs], "tokens/s")
    for one in (mine, other):
        one.end()
    token_ms = by_position([first[1] for first, _ in runs], given.batch)
    if given.plot:
        plot(given.plot, token_ms)
    asked = (
        f"Transformer (big) on {given.device}, {given.batch} sentences of {given.length} tokens,"
        f" beam {BEAM}"
    )
    title = f"{asked}: ours against transformers' generate; above 1.5 is the aim"
    parts = by_part(token_ms)
    notes: dict[str, object] = {"Part ms": parts, "Growth": round(parts[-1] / parts[1], 3)}
    show(
        title, figure, given.form, notes | ({"Token ms": token_ms} if given.form == "json" else {})
    )


if __name__ == "__main__":
    main()
