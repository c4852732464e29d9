"""Outlines of a mask as polygons along pixel edges, and its run lengths."""

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

# Legend: H height, W width, E pixel edges, four per corner: to the right, down, to the left, up.
Flags: TypeAlias = npt.NDArray[np.bool_]

EDGE_RIGHT, EDGE_DOWN, EDGE_LEFT, EDGE_UP = range(4)
BORDER_TURN_ORDER: Final = (
    1,
    0,
    3,
    # turn right, straight on, turn left; turning right first separates pixels that meet only at a
    # corner
)


def trace_mask_polygons(mask_HW: Flags) -> list[list[float]]:
    """Trace the outer borders of a mask, clockwise; holes are not represented, as in COCO's
    polygons.
    """
    border_E, corners = find_border_edges(mask_HW)
    rings = (
        tuple(trace_border_ring(start, border_E, corners))
        for start in find_ring_starts(border_E, corners)
    )
    return [
        [float(number) for corner in points for number in corner]
        for points in rings
        if compute_doubled_area(points) > 0
    ]


def compute_mask_run_lengths(mask_HW: Flags) -> list[int]:
    """Count the runs of 0 and 1 in column order, starting with 0."""
    flat = np.concatenate([[False], mask_HW.ravel(order="F")])
    ends = np.append(np.flatnonzero(np.diff(flat)), mask_HW.size)
    return [int(run) for run in np.diff(ends, prepend=0)]


def find_border_edges(mask_HW: Flags) -> tuple[Flags, int]:
    """Find the pixel edges that have the mask on their right; corners are numbered row by row. Also
    return the corners per row.
    """
    height, width = mask_HW.shape
    inner_HW = np.pad(mask_HW, 1)
    border_E = np.zeros((height + 1, width + 1, 4), dtype=np.bool_)
    border_E[:-1, :-1, EDGE_RIGHT] = mask_HW & ~inner_HW[:-2, 1:-1]
    border_E[:-1, 1:, EDGE_DOWN] = mask_HW & ~inner_HW[1:-1, 2:]
    border_E[1:, 1:, EDGE_LEFT] = mask_HW & ~inner_HW[2:, 1:-1]
    border_E[1:, :-1, EDGE_UP] = mask_HW & ~inner_HW[1:-1, :-2]
    return border_E.ravel(), width + 1


def find_next_border_edge(border: int, border_E: Flags, corners: int) -> int:
    """Return the edge that continues where one ends."""
    corner, direction = divmod(border, 4)
    end = corner + (1, corners, -1, -corners)[direction]
    return next(
        4 * end + (direction + turn) % 4
        for turn in BORDER_TURN_ORDER
        if border_E[4 * end + (direction + turn) % 4]
    )


def find_ring_starts(border_E: Flags, corners: int) -> Iterator[int]:
    """Yield one edge of each ring."""
    unvisited = set(np.flatnonzero(border_E).tolist())
    while unvisited:
        start = border = min(unvisited)
        yield start
        while border in unvisited:
            unvisited.remove(border)
            border = find_next_border_edge(border, border_E, corners)


def trace_border_ring(start: int, border_E: Flags, corners: int) -> Iterator[tuple[int, int]]:
    """Yield the points (x, y) at which a ring turns."""
    border, direction = start, -1
    while True:
        if border % 4 != direction:
            y, x = divmod(border // 4, corners)
            yield x, y
        direction = border % 4
        border = find_next_border_edge(border, border_E, corners)
        if border == start:
            return


def compute_doubled_area(points: tuple[tuple[int, int], ...]) -> int:
    """Compute twice the signed area: positive for clockwise rings (y pointing down), negative
    around a hole.
    """
    return sum(
        x0 * y1 - x1 * y0
        for (x0, y0), (x1, y1) in zip(points, (*points[1:], points[0]), strict=True)
    )
