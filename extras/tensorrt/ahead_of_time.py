"""`podium build`: engines of a checkpoint's networks for GPUs that need not be here, in a folder
that `podium infer --plans` serves.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, cast

import click

from extras.tensorrt import build
from extras.tensorrt.engine import (
    describe_lacking_precision,
    prepare_onnx_file,
)
from extras.tensorrt.library import (
    RTX,
    Capability,
    TensorRTLibrary,
    check_target_name,
    format_capability,
    format_target,
    load_library,
    parse_target,
)
from extras.tensorrt.plan import (
    EngineTarget,
    build_engine_request,
    write_engine_file,
)
from extras.tensorrt.prebuilt import (
    MANIFEST_FILE,
    PrebuiltEngine,
    PrebuiltManifest,
    RefusedEngine,
    compute_calibration_sha256,
    compute_weights_sha256,
    read_manifest,
    write_manifest,
)
from harness.engine_choice import (
    ServingRequest,
    describe_missing_calibration,
    describe_missing_generator,
    describe_unused_options,
    resolve_serving_request,
)
from harness.serving.checkpoint_selection import ExportedCheckpoint, choose_checkpoint
from harness.serving.loadgen.session import EngineRecorder
from harness.serving.setup import prepare_serving_run
from suite import __version__
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.engine import Engine, Executable, Network, Plan
from suite.errors import MissingError, RequestError
from suite.files.layout import (
    DISK_FULL_ERRORS,
    PARTIAL_SUFFIX,
    compute_file_sha256,
    sync_to_disk,
)
from suite.process.signals import raise_signals_in_block
from suite.terms import Precision

REPLACED_SUFFIX: Final = ".replaced"
PRODUCT_KINDS: Final = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM")
"""Operators of ONNX whose number format a GPU has to compute in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOrder:
    """What is to be built."""

    targets: tuple[str, ...]
    precisions: tuple[Precision, ...]
    folder: Path


class UnservedExecutable:
    """What a workload gets in place of a network that runs: its engines are for other machines."""

    def refuse_to_run(self) -> Any:
        """Refuse to open the engine."""
        raise MissingError("engines that are built ahead of time do not run during the build")

    open = describe = refuse_to_run


@dataclass(slots=True)
class AheadBuilder:
    """Builds each network that a workload hands to its engine, for some targets."""

    library: TensorRTLibrary
    targets: Sequence[Capability]
    folder: Path
    engines: list[PrebuiltEngine] = field(default_factory=list)
    refused: list[RefusedEngine] = field(default_factory=list)

    def build_network(self, network: Network[Any], plan: Plan[Any]) -> None:
        """Build a network for each target. Where one of a workload's networks is refused, so is the
        combination, and its other networks are left out.
        """
        precision = plan.precision
        for capability in self.targets:
            target = format_target(capability)
            if any((each.precision, each.target) == (precision, target) for each in self.refused):
                continue
            try:
                # TensorRT calls Python to log, and swallows what a signal raises there
                with raise_signals_in_block():
                    entry = self.build_for_target(network, plan, capability)
            except MissingError as error:
                self.refuse_combination(precision, target, str(error))
                continue
            self.engines.append(entry)
            print_progress_note(format_built_engine(entry))

    def build_for_target(
        self, network: Network[Any], plan: Plan[Any], capability: Capability
    ) -> PrebuiltEngine:
        """Build and write one engine; MissingError if the target cannot run it."""
        version = format_capability(capability)
        source, description = prepare_onnx_file(network, plan, self.library)
        check_target_precision(network.name, plan.precision, capability, source)
        target = EngineTarget(
            tensorrt=self.library.version,
            device="",
            capability=version,
            library=self.library.kind.name,
        )
        request = replace(
            build_engine_request(network, plan, source, target),
            weights_sha256=compute_weights_sha256(network),
            calibration_sha256=compute_calibration_sha256(plan.calibration),
        )
        log = build.build_error_logger(self.library.module)
        built = build.build_serialised_engine(self.library, log, source, request)
        path = self.folder / f"{network.name}-{plan.precision}-{format_target(capability)}.engine"
        write_engine_file(path, request, built.content)
        sync_to_disk(path)
        return PrebuiltEngine(
            network=network.name,
            precision=plan.precision.value,
            target=format_target(capability),
            file=path.name,
            sha256=compute_file_sha256(path),
            file_bytes=path.stat().st_size,
            weights_bytes=built.weights_bytes,
            activation_bytes=built.activation_bytes,
            layers=built.layers,
            build_s=round(built.build_s, 3),
            profiles="; ".join(map(build.format_shape_profile, request.profiles)),
            description=description,
        )

    def refuse_combination(self, precision: Precision, target: str, reason: str) -> None:
        """Note that a target does not run the workload in a precision, and drop what was built of
        it.
        """
        self.refused.append(RefusedEngine(precision=precision, target=target, reason=reason))
        for each in [*self.engines]:
            if (each.precision, each.target) == (precision, target):
                (self.folder / each.file).unlink()
                self.engines.remove(each)


class BuildingEngine(EngineRecorder):
    """The engine that a workload gets during a build."""

    def __init__(self, engine: Engine[Any], builder: AheadBuilder) -> None:
        super().__init__(engine)
        self.builder = builder

    def build_instead(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        """Build the network ahead of time."""
        self.builder.build_network(network, plan)
        return UnservedExecutable()

    compile = build_instead


def build_ahead(
    workload: str, options: RunOptions, checkpoint: Path | None, order: BuildOrder
) -> None:
    """Build the engines of a checkpoint; MissingError at the end if a combination was refused, or
    if the library is not installed.
    """
    for name in order.targets:
        check_target_name(name)
    library = load_library(RTX)
    targets = [parse_target(name, library) for name in order.targets]
    first = resolve_build_request(workload, options, order.precisions[0])
    chosen = choose_checkpoint(first.request, checkpoint)
    check_build_folder(order.folder)
    with fill_build_folder(order.folder) as partial:
        builder = AheadBuilder(library, targets, partial)
        for precision in order.precisions:
            build_in_precision(resolve_build_request(workload, options, precision), chosen, builder)
        if not builder.engines:
            raise MissingError(format_refusals(workload, builder.refused))
        write_manifest(partial, describe_build(first, chosen, builder))
    click.echo(
        f"{workload}: {len(builder.engines)} engines in {order.folder}; serve them where the GPU"
        f" is: podium infer {workload} --engine tensorrt --plans {order.folder}"
    )
    if builder.refused:
        raise MissingError(format_refusals(workload, builder.refused))


def resolve_build_request(
    workload: str, options: RunOptions, precision: Precision
) -> ServingRequest:
    """Resolve what is to be built in one precision; RequestError for options that the engine does
    not have, and for a workload that it does not serve.
    """
    serving_request = resolve_serving_request(replace(options, precision=precision), workload)
    request = serving_request.request
    if ungenerated := describe_missing_generator(request.row, request.engine, request.precision):
        raise RequestError(f"{workload}: {ungenerated}")
    if unused := describe_unused_options(request, serving_request.engine):
        raise RequestError(unused)
    return serving_request


def build_in_precision(
    serving_request: ServingRequest, checkpoint: ExportedCheckpoint, builder: AheadBuilder
) -> None:
    """Build all networks of a workload in one precision; refuse it where the round has no samples
    to calibrate with.
    """
    request = serving_request.request
    if uncalibrated := describe_missing_calibration(
        request.row, serving_request.row, request.precision
    ):
        for capability in builder.targets:
            builder.refuse_combination(request.precision, format_target(capability), uncalibrated)
        return
    run = prepare_serving_run(request, checkpoint)
    engine = BuildingEngine(serving_request.engine, builder)
    inference = request.workload.build_inference(
        run, checkpoint.folder, cast("Engine[Any]", engine)
    )
    inference.close()


def check_target_precision(
    network: str, precision: Precision, capability: Capability, source: Path
) -> None:
    """Refuse a number format that a target's GPUs do not compute in; MissingError names the first
    layer.
    """
    lacking = describe_lacking_precision(precision, capability)
    if lacking is None:
        return
    raise MissingError(
        f"network {network}: {find_first_product(source)} computes in {precision}: TensorRT"
        f" {lacking.replace('this GPU', format_target(capability))}"
    )


def find_first_product(source: Path) -> str:
    """Return kind and name of the first layer of an ONNX file that multiplies."""
    from harness.engines.onnx.export import read_onnx_model

    nodes = read_onnx_model(source).graph.node
    return next(f"{node.op_type} {node.name}" for node in nodes if node.op_type in PRODUCT_KINDS)


def check_build_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but engines of an earlier build, which is replaced."""
    try:
        names = [path.name for path in folder.iterdir()] if folder.exists() else []
    except OSError as error:
        raise RequestError(f"-o {folder}: {error.strerror}") from error
    own = set[str]()
    if MANIFEST_FILE in names:
        own = {MANIFEST_FILE, *(each.file for each in read_manifest(folder, "-o").engines)}
    if strangers := set(names) - own:
        raise RequestError(
            f"-o {folder}: holds other files ({min(strangers)}); name a new folder, or one that"
            " podium build made"
        )


@contextmanager
def fill_build_folder(folder: Path) -> Iterator[Path]:
    """Yield a `.partial` folder of a name of its own; on success it takes the folder's place, else
    it is removed. MissingError if the disk is full.
    """
    partial = name_folder_beside(folder, PARTIAL_SUFFIX)
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise RequestError(f"-o {folder}: {error.strerror}") from error
    try:
        yield partial
        sync_to_disk(partial)
        exchange_build_folder(partial, folder)
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        raise MissingError(f"-o {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def name_folder_beside(folder: Path, suffix: str) -> Path:
    """Return a name beside a folder that nobody else uses: what lies there already is not ours."""
    return folder.with_name(f"{folder.name}-{token_hex(4)}{suffix}")


def exchange_build_folder(partial: Path, folder: Path) -> None:
    """Put a new folder in the place of an earlier one, which stays if that fails."""
    if not folder.exists():
        partial.rename(folder)
        sync_to_disk(folder.parent)
        return
    replaced = name_folder_beside(folder, REPLACED_SUFFIX)
    try:
        folder.rename(replaced)
        partial.rename(folder)
    except BaseException:
        if not folder.exists():
            replaced.rename(folder)
        raise
    shutil.rmtree(replaced, ignore_errors=True)
    sync_to_disk(folder.parent)


def describe_build(
    serving_request: ServingRequest, checkpoint: ExportedCheckpoint, builder: AheadBuilder
) -> PrebuiltManifest:
    """Describe what was built, from what and by what."""
    request = serving_request.request
    return PrebuiltManifest(
        workload=request.name,
        round=request.round.name,
        profile=request.profile.value,
        checkpoint_sha256=checkpoint.record.sha256,
        library=builder.library.kind.name,
        library_version=builder.library.version,
        podium_version=__version__,
        engines=tuple(builder.engines),
        refused=tuple(builder.refused),
    )


def format_built_engine(entry: PrebuiltEngine) -> str:
    """Describe an engine in a line."""
    return (
        f"{entry.network} {entry.precision} {entry.target}: {entry.file_bytes / 1e6:.1f} MB,"
        f" {entry.layers} layers, {entry.build_s:.1f} s"
    )


def format_refusals(workload: str, refused: Sequence[RefusedEngine]) -> str:
    """Describe in a sentence what was refused; equal reasons once."""
    reasons: dict[str, list[str]] = {}
    for each in refused:
        reasons.setdefault(each.reason, []).append(f"{each.precision} for {each.target}")
    parts = [f"{', '.join(which)}: {reason}" for reason, which in reasons.items()]
    return f"{workload} was not built in {'; '.join(parts)}"
