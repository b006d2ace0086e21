"""The step that multiplies windows, and the borders of its result, which it may leave out.

The gradient of a convolution with respect to its images has a border where these were padded, and a
slice cuts it off. Places of a channel lie side by side, so the first ones and the last ones can be
left out; those between two lines are computed. With images of 8 by 8 and windows of 3 by 3 this
leaves 78 of 100 places, with images of 28 by 28 it leaves 838 of 900.

>>> span_read([View(0, (2, 3, 8, 8), (300, 100, 10, 1), 11)], 100)
(11, 89)
>>> span_read([View(0, (2, 3, 100), (300, 100, 1))], 100)
(0, 100)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from math import prod

from funcgrad._backends.native.plan_steps import EquationStep, Step
from funcgrad._backends.native.views import View, whole
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape
from funcgrad._core.structure.structures import WindowProducts


@dataclass(frozen=True, slots=True)
class WindowProduct(EquationStep):
    """Sums of products of elements of windows and of kernels.

    Attributes
    ----------
    form : WindowProducts
    shapes : mapping
        The shapes of the arrays x, k and y by their letters; all have one further axis at least.
    span : tuple of int
        The first place that is computed in each channel of a result x, and the end; empty for all.
    """

    form: WindowProducts
    shapes: Mapping[str, Shape]
    span: tuple[int, ...] = ()

    @property
    def stored(self) -> View:
        """The part of the result that is computed."""
        shape = self.shapes[self.form.arrays[2]]
        if not self.span:
            return whole(self.variable, shape)
        (first, end), area = self.span, prod(shape[2:])
        return View(self.variable, (prod(shape[:2]), end - first), (area, 1), first)


def leave_out_borders(steps: list[Step], views: Mapping[int, View], needed: Container[int]) -> None:
    """Have products of windows leave out the ends of channels that no step reads.

    Parameters
    ----------
    steps : list of steps
        Whose entries are replaced.
    views : mapping
    needed : container of int
        The buffers that others read as well.
    """
    products = {
        step.variable: place
        for place, step in enumerate(steps)
        if isinstance(step, WindowProduct)
        and step.form.arrays[2] == "x"
        and set(step.form.strides) == {1}
        and step.variable not in needed
    }
    if not products:
        return
    read: dict[int, list[View]] = {variable: [] for variable in products}
    for step in steps:
        for view in step.reads(views):
            if view.buffer in read:
                read[view.buffer].append(view)
    for variable, place in products.items():
        step = steps[place]
        assert isinstance(step, WindowProduct)
        area = prod(step.shapes["x"][2:])
        span = span_read(read[variable], area)
        if span != (0, area):
            steps[place] = replace(step, span=span)


def span_read(views: Iterable[View], period: int) -> tuple[int, int]:
    """The first place that is read in a row of some length, and the end, in any row of an array."""
    first, end = period, 0
    for view in views:
        low = high = view.offset % period
        for size, stride in zip(view.shape, view.strides, strict=True):
            if stride % period:
                low += min((size - 1) * stride, 0)
                high += max((size - 1) * stride, 0)
        if low < 0 or high >= period:
            return 0, period
        first, end = min(first, low), max(end, high + 1)
    return (first, end) if first < end else (0, period)
