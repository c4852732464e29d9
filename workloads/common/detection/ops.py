"""nms and roi_align wherever torchvision runs: `from workloads.common.detection.ops import
torchvision`.

With a build of torch for which torchvision's compiled operators do not load (see vision_ops),
kernels of our own are registered under torchvision's names, so that its detection models train and
run unchanged. Both are sums over whole tensors, without a loop over boxes. If the compiled
operators load, they are used and nothing is registered.

roi_align is a sparse product: each bin of each region is a weighted sum of at most 4 pixels per
sampling point, which `embedding_bag` computes in one pass over the channels of a pixel; its
gradient is the same product transposed.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from torch.nn import functional

from workloads.common.detection.torchvision_import import DECLARED_OPERATORS, torchvision

# Legend: N boxes, K regions, P bins along an axis, G sampling points of a bin along an axis, S
# sampling points of a
# bin, E entries (4 pixels per sampling point), B images, C channels, H height, W width of a
# feature map.
Tensor = torch.Tensor
# boxes settled at once: fewer take more rounds, more waste comparisons with boxes that are dropped
# anyway
NMS_BLOCK_BOXES: Final = 128
MAX_SPARSE_ENTRIES: Final = 1 << 22  # of the sparse matrix in memory at once: 64 MiB
PIXELS_PER_SAMPLING_POINT: Final = 4  # pixels around a sampling point


def nms(boxes_N4: Tensor, scores_N: Tensor, threshold: float) -> Tensor:
    """Keep each box that does not overlap a better kept box by more than `threshold`: int64
    indices, best first.

    Boxes are (x1, y1, x2, y2); equal scores keep their order. The best remaining boxes are
    processed as a block. Within it, each round suppresses what the survivors of the last round
    overlap, until two rounds agree: by then the decision on each box rests on final decisions about
    better boxes. The survivors then suppress boxes among all that remain.
    """
    left_N = torch.sort(scores_N, descending=True, stable=True).indices
    boxes, kept_indices = boxes_N4[left_N], [left_N[:0]]
    while len(left_N):
        best = boxes[:NMS_BLOCK_BOXES]
        stays = select_block_survivors(compute_pairwise_ious(best, best) > threshold)
        kept_indices.append(left_N[:NMS_BLOCK_BOXES][stays])
        left_N, boxes = left_N[NMS_BLOCK_BOXES:], boxes[NMS_BLOCK_BOXES:]
        free_N = ~(compute_pairwise_ious(best[stays], boxes) > threshold).any(dim=0)
        left_N, boxes = left_N[free_N], boxes[free_N]
    return torch.cat(kept_indices)


def select_block_survivors(overlap_NN: Tensor) -> Tensor:
    """Return which boxes of a block survive, best first; `overlap` marks pairs of which only one
    can survive.
    """
    # a float product is many times faster than a boolean one
    suppresses_NN = overlap_NN.float().triu_(1)
    stays_N = torch.ones(len(overlap_NN), dtype=torch.bool)
    while not torch.equal(stays_N, again_N := stays_N.float() @ suppresses_NN == 0):
        stays_N = again_N
    return stays_N


def compute_pairwise_ious(one_N4: Tensor, other_M4: Tensor) -> Tensor:
    """Intersection over union of each box of `one` with each of `other`, [N, M]; NaN for two boxes
    without area. Dimensions in front of these are batches.
    """
    left, top, right, bottom = one_N4[..., :, None, :].unbind(-1)
    other_left, other_top, other_right, other_bottom = other_M4[..., None, :, :].unbind(-1)
    width = torch.minimum(right, other_right).sub_(torch.maximum(left, other_left)).clamp_(min=0)
    height = torch.minimum(bottom, other_bottom).sub_(torch.maximum(top, other_top)).clamp_(min=0)
    shared_NM = width.mul_(height)
    both_NM: Tensor = (right - left) * (bottom - top) + (other_right - other_left) * (
        other_bottom - other_top
    )
    return shared_NM / both_NM.sub_(shared_NM)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoiAlignParameters:
    """Parameters of roi_align, named as in torchvision/csrc/ops/roi_align.cpp."""

    scale: float
    """Pixels of the feature map per unit of the boxes."""
    height: int
    width: int
    sampling: int
    """Sampling points of a bin along an axis; 0 or less: one per pixel, rounded up."""
    aligned: bool
    """Whether pixel centres lie at half-integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionAxis:
    """The regions along one axis, in pixels of the feature map."""

    start_K: Tensor
    bin_K: Tensor
    points_K: Tensor

    @classmethod
    def place_bins(
        cls, low_K: Tensor, high_K: Tensor, bins: int, pooling: RoiAlignParameters
    ) -> "RegionAxis":
        """Place the bins of regions from `low` to `high`."""
        offset = 0.5 if pooling.aligned else 0.0
        start_K = low_K * pooling.scale - offset
        length_K = high_K * pooling.scale - offset - start_K
        bin_K = (length_K if pooling.aligned else length_K.clamp(min=1.0)) / bins
        points_K = (
            torch.full_like(bin_K, pooling.sampling) if pooling.sampling > 0 else bin_K.ceil()
        )
        return cls(
            start_K=start_K, bin_K=bin_K, points_K=points_K.clamp(min=0 if pooling.aligned else 1)
        )

    def select_regions(self, chosen: Tensor) -> "RegionAxis":
        """Return the same for some of the regions."""
        return RegionAxis(
            **{field.name: getattr(self, field.name)[chosen] for field in fields(self)}
        )

    def compute_pixel_weights(self, bins: int, points: int, pixels: int) -> tuple[Tensor, Tensor]:
        """Return pixel indices and weights, [K, P, 2 * points]: two neighbours per sampling point.

        Points more than a pixel outside have weight 0; other points outside are clamped to the
        border (roi_align_common.h).
        """
        number_P, number_G = torch.arange(bins), torch.arange(points)
        step_K = self.bin_K / self.points_K.clamp(min=1)
        at_KPG = (
            self.start_K[:, None, None]
            + number_P[None, :, None] * self.bin_K[:, None, None]
            + (number_G[None, None, :] + 0.5) * step_K[:, None, None]
        )
        counted = (at_KPG >= -1) & (at_KPG <= pixels) & (number_G < self.points_K[:, None, None])
        at_KPG = at_KPG.clamp(min=0, max=pixels - 1)
        low = at_KPG.floor()
        above = at_KPG - low
        pixel = torch.cat([low, (low + 1).clamp(max=pixels - 1)], dim=2).to(torch.int32)
        weight = torch.cat([(1 - above) * counted, above * counted], dim=2)
        return pixel, weight / self.points_K.clamp(min=1)[:, None, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseRows:
    """Some rows of the sparse matrix from pixels to bins; each bin of a region is a row."""

    regions: Tensor | slice
    pixel_RE: Tensor
    weight_RE: Tensor


def iterate_sparse_rows(
    rois_K5: Tensor, map_height: int, map_width: int, pooling: RoiAlignParameters
) -> Iterator[SparseRows]:
    """Yield the sparse matrix in parts: regions with similar numbers of sampling points, few enough
    to fit in memory.
    """
    down = RegionAxis.place_bins(rois_K5[:, 2], rois_K5[:, 4], pooling.height, pooling)
    along = RegionAxis.place_bins(rois_K5[:, 1], rois_K5[:, 3], pooling.width, pooling)
    first_pixel_K = rois_K5[:, 0].to(torch.int32) * (map_height * map_width)
    for chosen, points_down, points_along in group_regions_by_points(
        down.points_K, along.points_K, pooling
    ):
        row, weight_down = down.select_regions(chosen).compute_pixel_weights(
            pooling.height, points_down, map_height
        )
        column, weight_along = along.select_regions(chosen).compute_pixel_weights(
            pooling.width, points_along, map_width
        )
        at_start = row * map_width + first_pixel_K[chosen][:, None, None]
        pixel = at_start[:, :, None, :, None] + column[:, None, :, None, :]
        weight = weight_down[:, :, None, :, None] * weight_along[:, None, :, None, :]
        yield SparseRows(
            regions=chosen,
            pixel_RE=pixel.flatten(3).flatten(0, 2),
            weight_RE=weight.flatten(3).flatten(0, 2),
        )


def group_regions_by_points(
    down_K: Tensor, along_K: Tensor, pooling: RoiAlignParameters
) -> Iterator[tuple[Tensor, int, int]]:
    """Group regions by their sampling points, up to the next power of two, so that few points are
    wasted.
    """
    exponent_2K = torch.stack([down_K, along_K]).clamp(min=1).log2().ceil().to(torch.int64)
    groups, member_K = torch.unique(exponent_2K, dim=1, return_inverse=True)
    for number, pair in enumerate(groups.T.tolist()):
        points = [pooling.sampling if pooling.sampling > 0 else 2**exponent for exponent in pair]
        a_region = (
            pooling.height * pooling.width * points[0] * points[1] * PIXELS_PER_SAMPLING_POINT
        )
        for chosen in torch.split(
            torch.where(member_K == number)[0], max(1, MAX_SPARSE_ENTRIES // a_region)
        ):
            yield chosen, points[0], points[1]


def roi_align(
    input_BCHW: Tensor,
    rois_K5: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Pool each region, (image, x1, y1, x2, y2), to a fixed size; [K, C, pooled height, pooled
    width], channels-last.
    """
    pooling = RoiAlignParameters(
        scale=spatial_scale,
        height=pooled_height,
        width=pooled_width,
        sampling=sampling_ratio,
        aligned=aligned,
    )
    _, channels, map_height, map_width = input_BCHW.shape
    computed = convert_to_at_least_fp32(input_BCHW)
    pixels = computed.permute(0, 2, 3, 1).reshape(-1, channels)
    pooled = pixels.new_empty(len(rois_K5), pooled_height, pooled_width, channels)
    for part in iterate_sparse_rows(rois_K5.to(computed.dtype), map_height, map_width, pooling):
        sums = functional.embedding_bag(
            part.pixel_RE, pixels, per_sample_weights=part.weight_RE, mode="sum"
        )
        pooled[part.regions] = sums.view(-1, *pooled.shape[1:])
    return pooled.to(input_BCHW.dtype).permute(0, 3, 1, 2)


def roi_align_backward(
    grad_KCHW: Tensor,
    rois_K5: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Return the gradient of the feature map, [B, C, H, W], channels-last."""
    pooling = RoiAlignParameters(
        scale=spatial_scale,
        height=pooled_height,
        width=pooled_width,
        sampling=sampling_ratio,
        aligned=aligned,
    )
    computed = convert_to_at_least_fp32(grad_KCHW)
    gradient = computed.permute(0, 2, 3, 1)
    pixels = gradient.new_zeros(batch_size * height * width, channels)
    for part in iterate_sparse_rows(rois_K5.to(computed.dtype), height, width, pooling):
        pixels += multiply_transposed_rows(
            part, gradient[part.regions].reshape(-1, channels), len(pixels)
        )
    return pixels.view(batch_size, height, width, channels).permute(0, 3, 1, 2).to(grad_KCHW.dtype)


def multiply_transposed_rows(part: SparseRows, gradient_RC: Tensor, pixels: int) -> Tensor:
    """Multiply by the transposed matrix: entries are sorted by pixel, and each pixel is a bag."""
    in_order, entry = torch.sort(part.pixel_RE.flatten())
    starts = torch.searchsorted(in_order, torch.arange(pixels, dtype=torch.int32))
    row = torch.div(entry, part.pixel_RE.shape[1], rounding_mode="floor")
    return functional.embedding_bag(
        row, gradient_RC, starts, per_sample_weights=part.weight_RE.flatten()[entry], mode="sum"
    )


def convert_to_at_least_fp32(values: Tensor) -> Tensor:
    """Compute in at least fp32, as torchvision does under autocast: lower precision would shift
    sampling points.
    """
    return values if values.dtype is torch.float64 else values.float()


def _save_roi_align_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.shape, ctx.arguments = inputs[0].shape, inputs[2:]


def _compute_roi_align_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    scale, pooled_height, pooled_width, sampling, aligned = ctx.arguments
    (rois,) = ctx.saved_tensors
    arguments = (scale, pooled_height, pooled_width, *ctx.shape, sampling, aligned)
    return (
        torch.ops.torchvision._roi_align_backward(grad, rois, *arguments),
        None,
        None,
        None,
        None,
        None,
        None,
    )


def _register_vision_kernels(library: torch.library.Library) -> None:
    for name, kernel in (
        ("nms", nms),
        ("roi_align", roi_align),
        ("_roi_align_backward", roi_align_backward),
    ):
        library.impl(name, kernel, "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_autograd(
        "torchvision::roi_align",
        _compute_roi_align_gradient,
        setup_context=_save_roi_align_context,
        lib=library,
    )
    # torchvision checks these before it calls an operator; otherwise roi_align takes a much slower
    # compiled Python path
    for module in ("torchvision.extension", "torchvision.ops.roi_align"):
        vars(sys.modules[module])["_has_ops"] = lambda: True


if DECLARED_OPERATORS is not None:
    _register_vision_kernels(DECLARED_OPERATORS)

__all__ = ["nms", "compute_pairwise_ious", "roi_align", "roi_align_backward", "torchvision"]
