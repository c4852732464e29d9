"""The workload contract: the record of a workload, the Protocols that the harness drives, and the
description of one run.

Protocols, not base classes: a plugin imports types only, and a fake in a test is ten lines.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Protocol, TypeAlias, runtime_checkable

from suite import plugins, registry
from suite.contracts import Misfit, PartFunction, find_misfits, find_part_misfits
from suite.dataset import DataSet
from suite.engine import Engine, Network, Precision
from suite.errors import RequestError, build_unknown_name_error
from suite.rounds import HyperValue, Profile, Round

__all__ = [
    "Block",
    "ChatMessage",
    "ExampleTraining",
    "GeneratingInference",
    "LikelihoodGenerator",
    "LikelihoodInference",
    "PromptGenerator",
    "TokenGenerator",
    "HyperValue",
    "Inference",
    "Mode",
    "Part",
    "PayloadInference",
    "PayloadPredictor",
    "Precision",
    "Predictor",
    "PreparedTraining",
    "Profile",
    "PromptSource",
    "Run",
    "Scores",
    "ShardedTraining",
    "StepPreparation",
    "Training",
    "Trial",
    "Workload",
    "WorkloadFramework",
]

Scores: TypeAlias = Mapping[str, float]
"""Metric name -> value in the round's unit: top-1, AP and BLEU on 0-1, as in v0.7 logs."""

Part: TypeAlias = str | Mapping[str, str]
"""`module:attribute`, or one for each framework."""

Block: TypeAlias = range
"""Epochs, counted from 1, trained between two evaluations."""


class Mode(StrEnum):
    """Purpose of a LoadGen run."""

    ACCURACY = "accuracy"
    PERFORMANCE = "performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything that a workload receives; nothing is read from globals. Picklable, since LoadGen
    runs in a child process.
    """

    round: Round
    profile: Profile
    seed: int
    data: Path | None
    """The user's `--data`; None: the embedded data, generated below `cache`."""
    cache: Path
    framework: str
    input: str
    device: str
    precision: Precision
    threads: int
    settings: Mapping[str, HyperValue]
    """Every setting of the workload and of the round, from defaults, the profile, --config and
    --set.
    """
    found: Mapping[str, Any] | None = None
    """Results of the data set's survey (suite.dataset.Survey.found); None: the workload inspects
    the data itself when constructed.
    """
    engine_cache: Path | None = None
    """Where engines keep what they compiled; None: below `cache`."""
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1


class Training(Protocol):
    """The maths of one run. The harness owns clock, log, seeds, target, checkpoints and the
    decision to stop.

    Given `Run.found`, it opens no data before the first `train_epoch` or `evaluate`: the clock
    starts first.
    """

    def facts(self) -> Mapping[str, HyperValue]:
        """Facts logged before run_start: train_samples, eval_samples, metric_signature;
        corpus_samples if samples are filtered by length.
        """

    def blocks(self) -> Iterator[Block]:
        """Yield the epochs trained between two evaluations, to the last one allowed."""

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """All ranks: yield the samples of the global batch after each optimizer step, with all
        state up to date.

        Every rank yields equally often; yields nothing if nothing is left to do. The harness closes
        it, possibly early.
        """

    def loss(self) -> float:
        """Rank 0: the loss of the last step. No collectives; called rarely, may synchronise the
        device.
        """

    def evaluate(self) -> Scores:
        """All ranks; rank 0's result counts."""

    def save(self, folder: Path) -> None:
        """All ranks: model, optimizer, schedule and scaler once; torch, CUDA, numpy and Python RNG
        states per rank.
        """

    def restore(self, folder: Path) -> None:
        """All ranks: the inverse of `save`."""

    def export(self, folder: Path) -> None:
        """Rank 0: the weights only (safetensors, canonical names without module. or _orig_mod.)."""


@runtime_checkable
class ExampleTraining(Protocol):
    """What a Training adds to show in a report what its evaluations look at."""

    def example(self) -> Mapping[str, Any]:
        """Rank 0: something of the last evaluation, as JSON has it, chosen without regard to how it
        went; logged, and drawn by the workload's `episode`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPreparation:
    """What a Training did before the clock so that its steps take less time."""

    setting: str
    """The setting that asked for it: `train.compile`, `train.graphs`."""
    seconds: float
    problem: str = ""
    """Why it failed: the steps are then taken as without the setting."""


@runtime_checkable
class PreparedTraining(Protocol):
    """What a Training adds whose steps can be compiled or recorded."""

    def prepare_steps(self) -> Sequence[StepPreparation]:
        """All ranks, before run_start: prepare what the settings ask for, on inputs of its own; the
        training is as before then.
        """


@runtime_checkable
class ShardedTraining(Protocol):
    """What a Training adds whose weights may be divided among the ranks."""

    def gather_weights(self) -> None:
        """All ranks, after run_stop and before rank 0's `export`: gather on rank 0 what it
        exports.
        """


class Predictor(Protocol):
    """Runs in one worker thread; enters inference mode and autocast there."""

    def warm_up(self) -> None:
        """Run before any load, on its own inputs, with every batch size or bucket up to the
        maximum.
        """

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer within LoadGen's timing; raw bytes, as the accuracy log stores them, in the order
        of `samples`.
        """


class Inference(Protocol):
    """One system under test, built from one checkpoint."""

    @property
    def sample_count(self) -> int:
        """Samples of the accuracy set."""

    @property
    def performance_sample_count(self) -> int:
        """Samples that a performance run may keep in memory at once."""

    def load(self, samples: Sequence[int]) -> None:
        """Load preprocessed samples into memory; runs on LoadGen's thread, untimed."""

    def unload(self, samples: Sequence[int]) -> None:
        """Unload samples; runs on LoadGen's thread."""

    def length(self, sample: int) -> int:
        """Key by which batches are sorted; constant if all samples are alike."""

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker thread, untimed."""

    def truth(self, folder: Path) -> None:
        """Write the ground truth for scoring (labels, COCO JSON, references)."""

    def close(self) -> None:
        """Release all resources."""


class TokenGenerator(Protocol):
    """Generates tokens for several prompts at once, in one thread: each holds a slot from its
    admission to its end, and slots that end are free for other prompts at once.
    """

    @property
    def slots(self) -> int:
        """Prompts that are answered at the same time."""

    def warm_up(self) -> None:
        """Run before any load, on its own inputs."""

    def admit(self, slot: int, prompt: Sequence[int]) -> None:
        """Give a free slot a prompt, as token ids; its first token comes from a later step."""

    def step(self) -> Sequence[tuple[int, int, bool]]:
        """Generate one token for each slot that has a prompt: slot, token, and whether the answer
        ended with it.
        """

    def release(self, slot: int) -> None:
        """Free a slot, whether its answer has ended or not."""


@runtime_checkable
class PromptGenerator(TokenGenerator, Protocol):
    """What a TokenGenerator adds to answer anybody's prompts (`podium serve --api openai`): limits,
    so that a prompt that it cannot take is refused before it waits for a slot, and answers of the
    length that is asked for.
    """

    def admit(
        self,
        slot: int,
        prompt: Sequence[int],
        max_new_tokens: int | None = None,
        *,
        ignores_ends: bool = False,
    ) -> None:
        """Give a free slot a prompt, whose answer has so many tokens at most; None: as many as
        `max_new_tokens` says. `ignores_ends`: a token that ends answers is one like others.
        """

    @property
    def vocabulary_size(self) -> int:
        """Token ids are below it."""

    @property
    def max_sequence_tokens(self) -> int:
        """Most tokens of a prompt and its answer together."""

    @property
    def max_new_tokens(self) -> int:
        """Most tokens of an answer, unless more are asked for."""


@runtime_checkable
class LikelihoodGenerator(TokenGenerator, Protocol):
    """What a TokenGenerator adds that tells how likely its tokens are."""

    def compute_log_probabilities(self) -> Sequence[float]:
        """Return the natural logarithm of the probability of each token of the last step, in the
        order in which the step returned them.
        """


@runtime_checkable
class LikelihoodInference(Protocol):
    """What an Inference adds whose answers are classes: it keeps how likely its network finds each
    class.
    """

    def keep_log_probabilities(self, samples: int) -> None:
        """Keep them of the first samples from now on: an accuracy run begins."""

    def collect_log_probabilities(self) -> Mapping[int, Sequence[float]]:
        """Return the natural logarithms of the probabilities of all classes, by sample."""


@runtime_checkable
class GeneratingInference(Protocol):
    """What an Inference adds if its answers are generated token by token: LoadGen then measures
    the time to the first token and the time per token, and an answer's bytes are its token ids
    (int32, little-endian).
    """

    def prompt(self, sample: int) -> Sequence[int]:
        """Return the token ids of a loaded sample's prompt."""

    def open_generator(self) -> TokenGenerator:
        """Create the generator of one thread, untimed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message of a conversation."""

    role: str
    """system, user or assistant."""
    content: str


class PromptSource(Protocol):
    """The samples of a generating workload as prompts for a server that anybody may have written.
    It has no network and imports no framework; answers are greedy.
    """

    @property
    def sample_count(self) -> int:
        """Samples of the accuracy set."""

    @property
    def performance_sample_count(self) -> int:
        """Samples that a performance run keeps in memory at once."""

    @property
    def max_new_tokens(self) -> int:
        """Tokens after which an answer is cut."""

    @property
    def end_token(self) -> int:
        """The token that ends an answer, and is part of it."""

    def tokenize_prompt(self, sample: int) -> Sequence[int]:
        """Return the token ids of a sample's prompt, as GeneratingInference has them."""

    def build_messages(self, sample: int) -> Sequence[ChatMessage]:
        """Return a conversation that the checkpoint's chat template turns into these token ids."""

    def write_truth(self, folder: Path) -> None:
        """Write the ground truth for scoring, as the Inference does."""


@runtime_checkable
class PayloadInference(Protocol):
    """What an Inference adds to be served over a network."""

    def payload(self, sample: int) -> bytes:
        """Return all that a loaded sample's answer needs, its number too if the answer holds it;
        runs on LoadGen's thread, untimed.
        """


@runtime_checkable
class PayloadPredictor(Protocol):
    """What a Predictor adds to be served over a network."""

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer payloads as `__call__` answers their samples, byte for byte; ValueError for bytes
        that are no payload.
        """


class Trial(Protocol):
    """Tiny networks of a workload's kind with random weights: a device that runs them supports the
    workload's kernels.
    """

    @property
    def networks(self) -> Sequence[Network[Any]]:
        """Return the networks for an engine to compile; new ones on each call, since engines modify
        modules in place.
        """

    def step(self, precision: Precision) -> None:
        """Run one training step, forward and backward, in a number format; RequestError if the
        workload's training does not support it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFramework:
    """A workload's parts in one more framework, of whatever package: what an entry point of the
    group `podium.frameworks` names, which is called `WORKLOAD.FRAMEWORK`. The parts are those of
    Workload; None where the workload has none in this framework.
    """

    workload: str
    framework: str
    training: str | None = None
    inference: str | None = None
    trial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One benchmark, both halves: what an entry point of the group `podium.workloads` names.

    The record imports none of its parts; each is a `module:attribute` that is imported on use. The
    judge imports `score`, `agree`, `examples` and `episode`, so these import no framework.

    The package that contains the record also contains the workload's row (`podium-v1.toml`) and, if
    there are any, the schema of its training documents (`training.<round>.<name>.json`) and the
    names of other sources' weights (`foreign-weights.toml`).
    """

    name: str
    training: Annotated[Part, PartFunction(("run",), is_light=False)]
    """Function of (run) that returns a Training; RequestError if the data cannot be used."""
    inference: Annotated[Part, PartFunction(("run", "checkpoint", "engine"), is_light=False)]
    """Function of (run, checkpoint, engine) that returns an Inference; RequestError if the
    checkpoint is another workload's.
    """
    prompts: Annotated[str | None, PartFunction(("run", "checkpoint"), is_light=False)] = None
    """Function of (run, checkpoint) that returns a PromptSource, for a generating workload that
    servers behind an OpenAI-compatible API can be measured with. None: they cannot.
    """
    score: Annotated[str, PartFunction(("answers", "truth"))]
    """Function of (answers, truth) that returns Scores: accuracy from the logged answers and the
    files that `Inference.truth` wrote.
    """
    sample_scores: Annotated[str | None, PartFunction(("answers", "truth"))] = None
    """Function of (answers, truth) that returns a ScoreSampler (suite.measurement.paired): the same
    scores over any choice of samples, so that two systems can be compared. None: differences are
    not tested.
    """
    force_answers: Annotated[
        str | None, PartFunction(("run", "checkpoint", "answers"), is_light=False)
    ] = None
    """Function of (run, checkpoint, answers) that returns how likely PyTorch finds the tokens of
    generated answers: rows of suite.loadgen.logprob_record, REFERENCE_FIELDS. None: nobody tells.
    """
    agree: Annotated[str | None, PartFunction(("one", "other"))] = None
    """Function of two answers to one sample: whether both may come from the same model. None: if
    they are equal.
    """
    end_tokens: Annotated[str | None, PartFunction(("profile",))] = None
    """Function of the profile that returns the ids of the tokens that end an answer, where answers
    are generated token by token: no token is behind one (compliance test TEST06).
    """
    frameworks: frozenset[str] | None = None
    """Frameworks of its networks: doctor then skips other engines. None: any."""
    hyperparameters: Annotated[str | None, PartFunction(("settings",))] = None
    """Function of the settings that returns the hyper-parameters under their log names, without a
    framework; `check --config` calls it. Those without a value are left out: the judge reports
    them as missing. None: the settings that the row logs.
    """
    check_run: Annotated[str | None, PartFunction(("name", "run"), is_light=False)] = None
    """Function of (name, run), called before a half is imported: RequestError or MissingError for a
    run that the workload or this machine does not support.
    """
    import_checkpoint: Annotated[
        str | None, PartFunction(("run", "source", "folder"), is_light=False)
    ] = None
    """Function of (run, source, folder) that writes the folder of a published checkpoint as an
    exported one, for `podium import`; RequestError if it is another network's. None: imported are
    files of weights, by `foreign-weights.toml`.
    """
    data_set: Annotated[str | None, PartFunction(("run",), is_light=False)] = None
    """Function of (run) that returns a DataSet (suite.dataset): the data are then surveyed once,
    before any clock starts, and each run receives the results as `Run.found`.
    """
    trial: Annotated[Part | None, PartFunction(("device",), is_light=False)] = None
    """Function of (device) that returns a Trial: doctor then tries each number format before it
    reports it as ready.
    """
    examples: Annotated[str | None, PartFunction(("answers", "truth", "embedded", "cache"))] = None
    """Function of (answers, truth, embedded, cache) that returns Examples (suite.examples) for a
    report.
    """
    episode: Annotated[str | None, PartFunction(("example",))] = None
    """Function of an ExampleTraining's example that returns an Episode (suite.examples)."""
    served_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Modules that serve its networks, by framework: imported once, in the process that LoadGen's
    are forked from. Not for a module that starts threads or counts GPUs when it is imported: no
    fork of such a process can use a GPU, and LoadGen's processes are then new interpreters.
    """
    has_large_kernels: bool = False
    """Whether its training kernels are large: beside other programs it then trains on all cores."""

    def add_framework(self, parts: WorkloadFramework) -> "Workload":
        """Return a copy whose networks are also those of another framework."""
        name = parts.framework
        return replace(
            self,
            frameworks=self.frameworks and self.frameworks | {name},
            training=add_framework_part(self.training, name, parts.training),
            inference=add_framework_part(self.inference, name, parts.inference),
            trial=self.trial and add_framework_part(self.trial, name, parts.trial),
        )

    def select_hyperparameters(
        self, round: Round, settings: Mapping[str, HyperValue]
    ) -> Mapping[str, HyperValue]:
        """Return the hyper-parameters under their log names."""
        if self.hyperparameters is None:
            logged = round.benchmark(self.name).settings
            return {
                key: settings[key]
                for key, setting in logged.items()
                if setting.log and key in settings
            }
        selected: Mapping[str, HyperValue] = self._call_part(
            "hyperparameters", self.hyperparameters, settings
        )
        return selected

    def build_training(self, run: Run) -> Training:
        """Build model, data and optimizer; RequestError if the data cannot be used."""
        built: Training = self._build_half("training", self.training, run, run)
        self._require_fit(find_misfits(built, Training))
        return built

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test; RequestError if the checkpoint is another workload's."""
        built: Inference = self._build_half(
            "inference", self.inference, run, run, checkpoint, engine
        )
        self._require_fit(find_misfits(built, Inference))
        return built

    def build_prompts(self, run: Run, checkpoint: Path) -> PromptSource:
        """Build the prompts of a run; RequestError if the workload has none, or if the checkpoint
        is another workload's.
        """
        built: PromptSource = self._call_part("prompts", self.require_prompts(), run, checkpoint)
        self._require_fit(find_misfits(built, PromptSource))
        return built

    def force_known_answers(
        self, run: Run, checkpoint: Path, answers: Mapping[int, bytes]
    ) -> Any | None:
        """Return how likely PyTorch finds the tokens of answers, an array of REFERENCE_FIELDS; None
        if the workload does not tell. RequestError if the checkpoint is another workload's.
        """
        if self.force_answers is None:
            return None
        return self._call_part("force_answers", self.force_answers, run, checkpoint, answers)

    def require_prompts(self) -> str:
        """Return the name of what builds prompts; RequestError if the workload has none."""
        if self.prompts is None:
            raise RequestError(
                f"{self.name}: its Workload names no `prompts`: servers behind an OpenAI-compatible"
                " API cannot be measured with it (podium help your-workload)"
            )
        return self.prompts

    def build_data_set(self, run: Run) -> DataSet | None:
        """Return the data set of a run, ready to survey, if the workload has one."""
        if self.data_set is None:
            return None
        data_set: DataSet = self._call_part("data_set", self.data_set, run)
        self._require_fit(find_misfits(data_set, DataSet))
        return data_set

    def build_trial(self, framework: str, device: str) -> Trial | None:
        """Return tiny networks in a framework, if the workload has any."""
        if self.trial is None:
            return None
        target = self._choose_target(self.trial, framework)
        trial: Trial = self._call_part("trial", target, device)
        self._require_fit(find_misfits(trial, Trial))
        return trial

    def _build_half(self, name: str, part: Part, run: Run, *arguments: object) -> Any:
        target = self._choose_target(part, run.framework)
        if self.check_run:
            self._call_part("check_run", self.check_run, self.name, run)
        return self._call_part(name, target, *arguments)

    def _call_part(self, name: str, target: str, *arguments: object) -> Any:
        function = resolve_name(target)
        self._require_fit(find_part_misfits(self, name, function))
        return function(*arguments)

    def _require_fit(self, misfits: Iterator[Misfit]) -> None:
        point = registry.map_entry_points(registry.WORKLOAD_GROUP).get(self.name)
        if point:
            plugins.require_fit(point, "workload", misfits)

    def _choose_target(self, part: Part, framework: str) -> str:
        known = self.frameworks if isinstance(part, str) else part.keys()
        if known is not None and framework not in known:
            raise build_unknown_name_error(f"framework of {self.name}", framework, known)
        if isinstance(part, str):
            return part
        return part[framework]


def add_framework_part(part: Part, framework: str, target: str | None) -> Part:
    """Return a part with its target in one more framework; a part for any framework stays."""
    if target is None or isinstance(part, str):
        return part
    return {**part, framework: target}
