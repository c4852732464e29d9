"""The network against torchvision's own, its losses against arithmetic by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from workloads.common import weights
from workloads.common.detection.ops import torchvision
from workloads.maskrcnn import model
from workloads.maskrcnn.detector import geometry, inference_pipeline

SIZE = 64


def theirs(counts: model.RegionCounts, ours: model.MaskRCNNNetwork, classes: int) -> Any:
    """torchvision's Mask R-CNN with the same settings and weights, the strides where ours are."""
    with weights.SkippedInitialisation():
        made = torchvision.models.detection.MaskRCNN(
            model.build_maskrcnn_backbone(frozen_norm=False),
            classes,
            min_size=SIZE,
            max_size=SIZE,
            image_mean=[0.0] * 3,
            image_std=[1.0] * 3,
            rpn_anchor_generator=anchors(),
            rpn_pre_nms_top_n_train=counts.before_train,
            rpn_pre_nms_top_n_test=counts.before_test,
            rpn_post_nms_top_n_train=counts.after_train,
            rpn_post_nms_top_n_test=counts.after_test,
            rpn_batch_size_per_image=counts.anchors,
            box_batch_size_per_image=counts.regions,
            box_detections_per_img=counts.detections,
        )
    made.load_state_dict(ours.state_dict())
    return made


def anchors() -> Any:
    """torchvision's own: around the corner of a cell, half a stride from the reference's, and of
    other sides.
    """
    sizes = tuple((size,) for size in (8, 16, 32, 64, 128))
    return torchvision.models.detection.anchor_utils.AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * 5)


@pytest.fixture
def as_torchvision(
    network: model.MaskRCNNNetwork, monkeypatch: pytest.MonkeyPatch
) -> model.MaskRCNNNetwork:
    """Put the reference's geometry aside, which test_geometry.py holds against the reference."""
    monkeypatch.setattr(geometry, "LAST_PIXEL_WIDTH_PX", 0.0)
    network.rpn.anchor_generator = anchors()
    return network


def pictures(count: int) -> torch.Tensor:
    return torch.rand(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(5)) * 2 - 1


def targets(count: int) -> list[model.DetectionTarget]:
    box = torch.tensor([[6.0, 8.0, 30.0, 40.0], [32.0, 20.0, 60.0, 58.0]])
    mask = torch.zeros(2, SIZE, SIZE, dtype=torch.uint8)
    mask[0, 8:40, 10:28], mask[1, 25:58, 32:60] = 1, 1
    return [
        {
            "boxes": box,
            "labels": torch.tensor([1, 3]),
            "masks": mask,
            "size": torch.tensor([SIZE, SIZE]),
        }
        for _ in range(count)
    ]


@pytest.mark.slow
def test_detections_are_torchvision_s(
    as_torchvision: model.MaskRCNNNetwork,
    described: model.MaskRCNNDescription,
    few: model.RegionCounts,
) -> None:
    """Cut into three networks and put together again, with masks pasted by products of matrices:
    the same answers.
    """
    network = as_torchvision
    other = theirs(few, network, len(described.classes) + 1).eval()
    with torch.inference_mode():
        (wanted,) = other(list(pictures(1)))
        (raw,) = inference_pipeline.build_eager_detector(network.eval())(
            pictures(1), [(SIZE, SIZE)]
        )
    assert len(raw.score_D) == len(wanted["scores"]) > 0
    torch.testing.assert_close(raw.box_D4, wanted["boxes"], rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(raw.score_D, wanted["scores"], rtol=1e-4, atol=1e-5)
    assert raw.label_D.tolist() == wanted["labels"].tolist()
    torch.testing.assert_close(
        inference_pipeline.paste_masks_by_column(raw.mask_DMM, raw.box_D4, SIZE, SIZE).transpose(
            1, 2
        ),
        wanted["masks"][:, 0],
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.slow
def test_losses_are_torchvision_s(
    as_torchvision: model.MaskRCNNNetwork,
    described: model.MaskRCNNDescription,
    few: model.RegionCounts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All five, where the reference's own rules (beta of the box loss) are put aside."""
    network = as_torchvision
    monkeypatch.setattr(model, "BOX_LOSS_BETA", 1 / 9)
    network.rpn._post_nms_top_n = {"training": 1000, "testing": 1000}  # ours count for the batch
    other = theirs(replace(few, after_train=1000), network, len(described.classes) + 1).train()
    other.transform._skip_resize = True  # which would draw a size
    torch.manual_seed(9)
    wanted = other(list(pictures(2)), targets(2))
    torch.manual_seed(9)
    ours = network.train()(pictures(2), [(SIZE, SIZE)] * 2, targets(2))
    assert ours.keys() == wanted.keys()
    for name, loss in ours.items():
        torch.testing.assert_close(
            loss, wanted[name], rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_region_losses_by_hand() -> None:
    """Cross-entropy, and smooth L1 with beta 1 of the right class's deltas, in float64."""
    rng = np.random.default_rng(1)
    logit, delta, wanted = (
        rng.normal(size=(6, 4)),
        rng.normal(size=(6, 16)) * 2,
        rng.normal(size=(6, 4)),
    )
    label = np.array([0, 2, 0, 3, 1, 0])
    shifted = logit - logit.max(axis=1, keepdims=True)
    cross = (np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(6), label]).mean()
    gap = np.abs(
        np.stack(
            [delta[i, 4 * label[i] : 4 * label[i] + 4] - wanted[i] for i in range(6) if label[i]]
        )
    )
    smooth = np.where(gap < 1, 0.5 * gap**2, gap - 0.5).sum() / 6
    found = model.compute_region_losses(*map(torch.from_numpy, (logit, delta, label, wanted)))
    assert [float(loss) for loss in found] == pytest.approx([cross, smooth], rel=1e-12)


def test_mask_loss_by_hand() -> None:
    """Binary cross-entropy of the right class's mask over a region that shows half an object, in
    float64.
    """
    logit = torch.randn(1, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    mask = torch.zeros(1, 8, 8, dtype=torch.uint8)
    mask[0, :, :4] = 1
    box = torch.tensor([[0.0, 0.0, 8.0, 8.0]], dtype=torch.float64)
    none = [torch.tensor([0])]
    found = torchvision.models.detection.roi_heads.maskrcnn_loss(
        logit, [box], [mask], [torch.tensor([2])], none
    )
    value = logit[0, 2].numpy()
    wanted = np.zeros((4, 4))
    wanted[:, :2] = (
        1  # two pixels a bin; the third column's points lie between pixels 4 and 5 already
    )
    wanted[:, 1] = [bilinear_average(mask[0, 0].numpy().astype(float), 2, 4)] * 4
    expected = (np.maximum(value, 0) - value * wanted + np.log1p(np.exp(-np.abs(value)))).mean()
    assert float(found) == pytest.approx(expected, rel=1e-12)


def bilinear_average(
    row: "np.ndarray[Any, np.dtype[np.float64]]", low: float, high: float
) -> float:
    """Average two points of a row, as roi_align places them in a bin of two pixels; pixel numbers
    are coordinates.
    """
    points = [low + 0.5, high - 0.5]
    return float(
        np.mean([row[int(at)] * (1 - at % 1) + row[int(at) + 1] * (at % 1) for at in points])
    )


@pytest.mark.slow
def test_strides_lie_in_the_first_convolution(network: model.MaskRCNNNetwork) -> None:
    """MSRA's weights were trained so; in the 3x3 convolution they would be wrong."""
    body: Any = network.backbone.body
    for stage in (body.layer2, body.layer3, body.layer4):
        assert (stage[0].conv1.stride, stage[0].conv2.stride) == ((2, 2), (1, 1))
    assert body.layer1[0].conv1.stride == (1, 1)


def test_frozen_layers_are_frozen() -> None:
    """conv1, res2 and all batch-norm stay as they were loaded; everything else learns; epsilon is
    0.
    """
    with weights.SkippedInitialisation():
        body: Any = model.build_maskrcnn_backbone(frozen_norm=True).body
    trained = {
        name.split(".")[0] for name, parameter in body.named_parameters() if parameter.requires_grad
    }
    assert trained == {"layer2", "layer3", "layer4"}
    assert body.bn1.eps == 0.0 and not any("bn" in name for name, _ in body.named_parameters())


@pytest.mark.slow
def test_a_batch_keeps_so_many_proposals(network: model.MaskRCNNNetwork) -> None:
    """The reference's number holds for the batch, torchvision's for each picture."""
    network.rpn._post_nms_top_n = {"training": 10, "testing": 10}
    images = torchvision.models.detection.image_list.ImageList(pictures(3), [(SIZE, SIZE)] * 3)
    network.train()
    features = network.backbone(pictures(3))
    boxes, _ = network.rpn(images, features, targets(3))
    assert sum(map(len, boxes)) == 10
    boxes, _ = network.rpn.eval()(images, features)
    assert all(len(each) == 10 for each in boxes)


@pytest.mark.slow
def test_anchors_outside_teach_nothing(
    described: model.MaskRCNNDescription, few: model.RegionCounts
) -> None:
    """With the reference's rule their label is torchvision's `ignored`."""
    for inside_only in (True, False):
        with weights.SkippedInitialisation():
            rpn = model.MaskRCNNNetwork(described, replace(few, inside_only=inside_only)).rpn
        anchors = [torch.tensor([[-20.0, -20.0, -10.0, -10.0], [6.0, 8.0, 30.0, 40.0]])]
        labels, _ = rpn.assign_targets_to_anchors(
            anchors, [{"boxes": targets(1)[0]["boxes"][:1], "size": torch.tensor([SIZE, SIZE])}]
        )
        assert labels[0].tolist() == [-1.0 if inside_only else 0.0, 1.0]


@pytest.mark.slow
def test_a_batch_without_objects_has_losses(network: model.MaskRCNNNetwork) -> None:
    """COCO has such pictures: nothing to match, nothing to mask, no error."""
    empty = {
        "boxes": torch.zeros(0, 4),
        "labels": torch.zeros(0, dtype=torch.int64),
        "masks": torch.zeros(0, SIZE, SIZE, dtype=torch.uint8),
    }
    losses = network.train()(
        pictures(2), [(SIZE, SIZE)] * 2, [empty | {"size": torch.tensor([SIZE, SIZE])}] * 2
    )
    assert (
        all(torch.isfinite(loss) for loss in losses.values())
        and float(losses["loss_mask"].detach()) == 0.0
    )
    torch.stack(list(losses.values())).sum().backward()
