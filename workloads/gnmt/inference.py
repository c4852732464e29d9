"""The system under test: encoder and decoder step run by the engine, beam search around them, token
ids as answers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from suite.engine import (
    Engine,
    Executable,
    Network,
    ShapeProfile,
    list_recorded_batch_sizes,
)
from suite.errors import RequestError
from suite.workload import Predictor, Run
from workloads.common import malloc, run_request
from workloads.common.served_samples import LoadedSamples, ServedSamples
from workloads.common.setting_values import require_positive_setting
from workloads.common.text import encoded, references
from workloads.common.text.beam_search import BeamParameters
from workloads.common.text.encoded import Tokens
from workloads.common.text.parallel_text import TEXT_TEST_SPLIT
from workloads.common.text.token_answers import pack_token_ids
from workloads.common.worker_stream import WorkerStream
from workloads.gnmt import data, decoding, model, scoring, survey
from workloads.gnmt.decoding import SERVING_BEAM_RULE, GNMTTranslator
from workloads.gnmt.recorded_steps import record_gnmt_steps
from workloads.gnmt.scoring import GNMT_END_ID, GNMT_START_ID

# Legend: N sentences of a batch, S source positions, K beams, B = N K, H hidden width, L decoder
# layers, V vocabulary.
GNMT_TYPICAL_TOKENS: Final = 24  # tokens, likewise
GNMT_WARM_UP_TOKENS: Final = (
    2  # tokens of a warm-up answer: all steps of an answer have the same shapes
)


class GNMTPredictor:
    """One worker's predictor: sample indices in, answers out."""

    def __init__(
        self,
        translator: GNMTTranslator,
        samples: LoadedSamples[Tokens],
        beam: BeamParameters,
        sizes: range,
    ) -> None:
        self._translator, self._samples, self._beam, self._sizes = translator, samples, beam, sizes
        self._stream = WorkerStream(translator.device)

    def warm_up(self) -> None:
        """Run every batch size that may occur once, on a made-up source."""
        short = replace(self._beam, max_length=GNMT_WARM_UP_TOKENS)
        source = build_example_sentence(min(GNMT_TYPICAL_TOKENS, self._beam.max_length))
        for size in self._sizes:
            self._translate_to_answers([source] * size, short)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the translation of each sentence, including its end mark."""
        return self._translate_to_answers([self._samples[sample] for sample in samples], self._beam)

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer sentences that came over a network."""
        return self._translate_to_answers(
            [np.frombuffer(payload, "<i4") for payload in payloads], self._beam
        )

    def _translate_to_answers(
        self, sources: Sequence[Tokens], beam: BeamParameters
    ) -> Sequence[bytes]:
        with self._stream.enter_inference():
            return [
                pack_token_ids([*answer, GNMT_END_ID])
                for answer in self._translator.translate_sentences(sources, beam)
            ]


class GNMTInference(ServedSamples[Tokens]):
    """A checkpoint, an engine and the sentences of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        network, self._description = model.load_gnmt_checkpoint(checkpoint)
        self._run = run
        self._text = data.load_gnmt_text(
            encoded.resolve_encoded_folder(
                run, run_request.resolve_data_survey(run, survey.GNMTDataSet)
            )
        )
        check_checkpoint_vocabulary(checkpoint, self._description, self._text)
        self._test = self._text.load_pairs(TEXT_TEST_SPLIT)
        row = run_request.require_run_inference_row(run, model.GNMT_NAME)
        super().__init__(len(self._test), row.performance_samples, self._prepare_sources)
        self._longest = require_positive_setting(run.settings, "data.max_answer_length")
        # below the longest: an export is checked at a larger length, too
        self._usual = max(1, min(GNMT_TYPICAL_TOKENS, self._longest // 2))
        self._plan = run_request.build_engine_plan(run)
        self._reader: Executable[torch.Tensor] = engine.compile(
            self._describe_encoder_network(network), self._plan
        )
        self._writer: Executable[torch.Tensor] = engine.compile(
            self._describe_decoder_network(network), self._plan
        )

    def _describe_encoder_network(self, network: model.GNMTNetwork) -> Network[torch.Tensor]:
        inputs = build_gnmt_encoder_inputs(run_request.TYPICAL_BATCH, self._usual, self._run.device)
        return Network(
            name=f"{model.GNMT_NAME}-encoder",
            module=model.GNMTServingEncoder(network),
            framework=model.GNMT_FRAMEWORK,
            inputs=inputs,
            input_names=("source", "length"),
            output_names=("memory", "key"),
            dimensions=({0: "batch", 1: "source"}, {0: "batch"}),
            shapes=self._compute_shape_profile(
                lambda batch, length: build_gnmt_encoder_inputs(batch, length, "meta")
            ),
        )

    def _describe_decoder_network(self, network: model.GNMTNetwork) -> Network[torch.Tensor]:
        size = (self._description.layers, self._description.width)
        return Network(
            name=f"{model.GNMT_NAME}-decoder",
            module=model.GNMTServingDecoderStep(network),
            framework=model.GNMT_FRAMEWORK,
            inputs=build_gnmt_decoder_inputs(
                run_request.TYPICAL_BATCH, self._usual, size, self._run.device
            ),
            input_names=("token", "hidden", "cell", "memory", "key", "known"),
            output_names=("logit", "share", "next_hidden", "next_cell"),
            dimensions=({0: "batch"}, {0: "rows"}, {0: "rows"}, *[{0: "batch", 1: "source"}] * 3),
            shapes=self._compute_shape_profile(
                lambda batch, length: build_gnmt_decoder_inputs(batch, length, size, "meta")
            ),
            state={"next_hidden": "hidden", "next_cell": "cell"},
        )

    def _compute_shape_profile(
        self, inputs: Callable[[int, int], tuple[torch.Tensor, ...]]
    ) -> ShapeProfile:
        """Return the shapes of one sentence of minimum length, of a typical batch, and of the
        largest batch of the longest sentences.
        """
        most = self._plan.max_batch
        sizes = (
            (1, 2),
            (min(run_request.TYPICAL_BATCH, most), self._usual),
            (most, self._longest),
        )
        least, usual, largest = (
            tuple(tuple(tensor.shape) for tensor in inputs(batch, length))
            for batch, length in sizes
        )
        return ShapeProfile(minimum=least, usual=usual, maximum=largest)

    def _prepare_sources(self, samples: Sequence[int]) -> Iterator[Tokens]:
        """Return token ids; MLPerf does not time tokenisation (inference_rules.adoc v0.5, Data)."""
        for sample in samples:
            yield data.truncate_gnmt_source(self._test.get_pair(sample)[0], self._longest)

    def payload(self, sample: int) -> bytes:
        """Return the token ids, int32 little-endian."""
        return self._held[sample].astype("<i4", copy=False).tobytes()

    def length(self, sample: int) -> int:
        """Return the number of source tokens."""
        return len(self._held[sample])

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        device = torch.device(self._run.device)
        encoder, step = self._reader.open(), self._writer.open()
        inputs = build_gnmt_encoder_inputs(1, self._usual, self._run.device)
        translator = GNMTTranslator(
            run_encoder=encoder,
            run_decoder_step=step,
            layers=self._description.layers,
            device=device,
            recorded=record_gnmt_steps(
                step,
                lambda: encoder(*inputs)[0],
                sizes=list_recorded_batch_sizes(max_batch),
                longest=self._longest,
                beams=SERVING_BEAM_RULE[0],
                layers=self._description.layers,
            ),
        )
        return GNMTPredictor(
            translator,
            self._held,
            decoding.build_gnmt_beam(SERVING_BEAM_RULE, self._longest),
            run_request.list_warm_up_batch_sizes(self._run, max_batch),
        )

    def truth(self, folder: Path) -> None:
        """Write references and vocabulary."""
        references.write_references(folder, self._text.references)
        scoring.write_gnmt_vocabulary(folder, self._text.subwords.tokens)


def build_example_sentence(length: int) -> Tokens:
    """Create a sentence of this many tokens."""
    return np.array([GNMT_START_ID, *[GNMT_END_ID] * (length - 1)], dtype=np.int32)


def build_gnmt_encoder_inputs(batch: int, length: int, device: str) -> tuple[torch.Tensor, ...]:
    """Create example inputs of the encoder."""
    return torch.full((batch, length), GNMT_END_ID, device=device), torch.full(
        (batch,), length, device=device
    )


def build_gnmt_decoder_inputs(
    batch: int, length: int, size: tuple[int, int], device: str
) -> tuple[torch.Tensor, ...]:
    """Create example inputs of one decoder step; `size`: layers and width."""
    (layers, width), beams = size, SERVING_BEAM_RULE[0]
    token_NK = torch.full((batch, beams), GNMT_START_ID, device=device)
    state_BLH = torch.zeros(batch * beams, layers, width, device=device)
    memory_NSH = torch.zeros(batch, length, width, device=device)
    known_NS = torch.ones(batch, length, dtype=torch.bool, device=device)
    return token_NK, state_BLH, state_BLH, memory_NSH, memory_NSH, known_NS


def check_checkpoint_vocabulary(
    checkpoint: Path, description: model.GNMTDescription, text: data.GNMTPreparedText
) -> None:
    """Reject a checkpoint trained with another vocabulary: its token ids would mean other words."""
    if description.vocabulary_sha256 != text.subwords.sha256:
        raise RequestError(
            f"checkpoint {checkpoint}: it was trained with the vocabulary "
            f"{description.vocabulary_sha256[:16]}, but this text has "
            f"{text.subwords.sha256[:16]}; serve the text that it was trained on, with the same "
            "data.merges"
        )
