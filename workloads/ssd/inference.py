"""The system under test: the accuracy set, decoded before LoadGen's clock starts; network, decoding
and suppression inside it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from suite.engine import Calibration, Call, Engine, Network
from suite.errors import RequestError
from suite.workload import Predictor, Run
from workloads.common import inputs, malloc, run_request
from workloads.common.calibration import (
    CalibrationSamples,
    build_picture_calibration,
    choose_calibration_list,
)
from workloads.common.detection import coco, coco_survey
from workloads.common.detection.coco import CocoSplit
from workloads.common.payloads import prefix_sample_number, split_numbered_payload
from workloads.common.pictures.files import PictureFiles
from workloads.common.pictures.served_pictures import (
    PictureBatcher,
    ServedPictures,
    can_serve_bytes,
)
from workloads.common.served_samples import LoadedSamples, ServedSamples
from workloads.common.setting_values import require_text_setting
from workloads.common.worker_stream import WorkerStream
from workloads.ssd import data, model, survey
from workloads.ssd.detector import postprocessing
from workloads.ssd.detector.default_boxes import SSD_CONFIGURATIONS, build_default_boxes

# Legend: N images of a batch, B default boxes, K classes, H height, W width, C channels.


class SSDPredictor:
    """One worker's predictor: sample indices in, answers out."""

    def __init__(
        self,
        call: Call[torch.Tensor],
        loaded: LoadedSamples[torch.Tensor],
        pictures: ServedPictures,
        default_B4: torch.Tensor,
        sizes: range,
    ) -> None:
        self._call, self._held, self._pictures, self._default_B4, self._sizes = (
            call,
            loaded,
            pictures,
            default_B4,
            sizes,
        )
        self._batcher = PictureBatcher(default_B4.device)
        self._stream = WorkerStream(default_B4.device)

    def warm_up(self) -> None:
        """Run every batch size that may occur once, on blank images."""
        for size in self._sizes:
            self._detect_objects([0] * size, [self._pictures.blank] * size)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the detections in each image."""
        return self._detect_objects(list(samples), [self._held[sample] for sample in samples])

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer images that came over a network, each behind its sample's number."""
        numbers, pictures = zip(*map(split_numbered_payload, payloads), strict=True)
        return self._detect_objects(
            list(numbers), [self._pictures.decode_picture(picture) for picture in pictures]
        )

    def _detect_objects(self, samples: list[int], pictures: list[torch.Tensor]) -> Sequence[bytes]:
        with self._stream.enter_inference():
            offset_NB4, logit_NBK = self._call(self._batcher.copy_to_device(pictures))
            return postprocessing.encode_ssd_answers(
                samples, offset_NB4.float(), logit_NBK.float(), self._default_B4
            )


class SSDInference(ServedSamples[torch.Tensor]):
    """A checkpoint, an engine and the images of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        network, description = model.load_ssd_checkpoint(checkpoint)
        self._run = run
        self._configuration = SSD_CONFIGURATIONS[require_trained_configuration(run, description)]
        self._val = read_ssd_accuracy_set(run, description)
        side = self._configuration.picture_px
        self._reader = inputs.open_input_reader(
            run,
            PictureFiles(partial(data.build_square_view, size=side)),
            workers=0,
            threads=run.threads,
        )
        self._pictures = ServedPictures(
            run.device, side, as_bytes=can_serve_bytes(engine, run.device)
        )
        row = run_request.require_run_inference_row(run, model.SSD_NAME)
        super().__init__(len(self._val), row.performance_samples, self._prepare_pictures)
        self._default_B4 = build_default_boxes(self._configuration).to(run.device)
        self._executable = engine.compile(
            self._describe_network(network),
            run_request.build_engine_plan(run, self._build_calibration),
        )

    def _build_calibration(self) -> Calibration[torch.Tensor]:
        root = self._val.folder.parent
        chosen = choose_calibration_list(
            self._run,
            CalibrationSamples(
                name=data.SSD_CALIBRATION_LIST, samples=tuple(data.iterate_ssd_calibration_names())
            ),
        )
        device = self._default_B4.device
        return build_picture_calibration(
            self._run,
            chosen,
            self._val,
            [root, root / data.SSD_TRAIN_FOLDER],
            lambda path: (PictureBatcher(device).copy_to_device([*self._read_pictures([path])]),),
        )

    def _describe_network(self, module: torch.nn.Module) -> Network[torch.Tensor]:
        picture_CHW = self._pictures.normalised_CHW
        return Network(
            name=model.SSD_NAME,
            module=module,
            framework="torch",
            inputs=(picture_CHW.unsqueeze(0).to(self._run.device),),
            input_names=("picture",),
            output_names=("offset", "logit"),
            dimensions=({0: "batch"},),
            shapes=run_request.build_batch_shapes(
                tuple(picture_CHW.shape), run_request.require_max_batch(self._run)
            ),
        )

    def _prepare_pictures(self, samples: Sequence[int]) -> Iterator[torch.Tensor]:
        """Decode, resize, and normalise unless the device does."""
        return self._read_pictures([self._val.path(sample) for sample in samples])

    def _read_pictures(self, paths: Sequence[Path]) -> Iterator[torch.Tensor]:
        return self._pictures.read_pictures(self._reader, paths)

    def payload(self, sample: int) -> bytes:
        """Return the sample's number and the normalised image."""
        return prefix_sample_number(sample, self._pictures.encode_picture(self._held[sample]))

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        return SSDPredictor(
            self._executable.open(),
            self._held,
            self._pictures,
            self._default_B4,
            run_request.list_warm_up_batch_sizes(self._run, max_batch),
        )

    def truth(self, folder: Path) -> None:
        """Write the annotations."""
        coco.write_coco_truth(self._val, folder)


def read_ssd_accuracy_set(run: Run, description: model.SSDDescription) -> CocoSplit:
    """Read the annotations; RequestError if the checkpoint has other categories."""
    surveyed = run_request.resolve_data_survey(run, survey.build_ssd_data_set)
    val = coco_survey.load_usable_coco_split(data.resolve_ssd_folder(run), surveyed, "val")
    if val.categories != description.categories:
        raise RequestError(
            f"the checkpoint's {len(description.categories)} categories differ from the"
            f" {len(val.categories)} in {val.document}"
        )
    return val


def require_trained_configuration(run: Run, description: model.SSDDescription) -> str:
    """Return the configuration; RequestError if the checkpoint was trained in another."""
    requested = require_text_setting(run.settings, "model.configuration")
    if requested != description.configuration:
        raise RequestError(
            f"checkpoint was trained in configuration {description.configuration}, but "
            f"{requested} is served; to train one for it, run podium train {model.SSD_NAME} --set "
            f"model.configuration={requested}"
        )
    return requested
