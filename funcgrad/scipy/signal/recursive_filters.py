"""Filters whose output feeds back, as loops over the samples.

A filter is a direct form II, transposed: its state holds the contributions of earlier samples to
later outputs (A. V. Oppenheim and R. W. Schafer, Discrete-Time Signal Processing, 2010, 6.3.3). The
loop is
``fg.scan``: machine code under ``jit``, with derivatives in signal, coefficients and state.

>>> lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0])
Tensor([1.  , 0.5 , 0.25])
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.choices import is_unknown
from funcgrad._control.scans import scan
from funcgrad._core.trace import concrete
from funcgrad.errors import ArgumentError, MissingOptionError, ShapeError
from funcgrad.numpy.options import integer
from funcgrad.scipy.signal.signal_arguments import extended, inexact, one_of, with_axis_last
from funcgrad.tensor.tensor import ArrayLike, Tensor


def lfilter(
    b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """Filter a signal by the quotient of two polynomials in the delay.

    ``a[0] y[n] = b[0] x[n] + b[1] x[n-1] + … - a[1] y[n-1] - a[2] y[n-2] - …``

    Parameters
    ----------
    b, a : array_like, shapes (m,) and (n,)
        The coefficients of the numerator and the denominator.
    x : array_like
    axis : int
    zi : array_like, optional
        The state before the first sample: along the axis it has ``max(m, n) - 1`` values.

    Returns
    -------
    Tensor or tuple of Tensor
        The filtered signal; with ``zi`` also the state after the last sample.

    Raises
    ------
    ShapeError
        Coefficients are not vectors, or ``zi`` does not fit.

    Examples
    --------
    >>> lfilter([1.0], [1.0, -0.5], [1.0, 0.0])
    Tensor([1. , 0.5])
    >>> import funcgrad as fg
    >>> fg.grad(lambda b: lfilter([b], [1.0, -0.5], [1.0, 0.0])[1])(1.0)
    Tensor(0.5)
    """
    up, down = _normalized("lfilter", b, a)
    signal = with_axis_last("lfilter", x, axis)
    order = up.shape[0] - 1
    dtype = np.result_type(up.dtype, down.dtype, signal.dtype)
    batch = signal.shape[:-1]
    if zi is None:
        state = fnp.zeros((*batch, order), dtype)
    else:
        state = with_axis_last("lfilter", zi, axis)
        if state.ndim != signal.ndim or state.shape[-1] != order:
            raise ShapeError(
                f"lfilter: zi has the shape {np.shape(zi)}; it needs the signal's axes, and"
                f" {order} values along axis {axis}."
            )
        dtype = np.result_type(dtype, state.dtype)
        state = fnp.broadcast_to(state.astype(dtype), (*batch, order))
    y, state = _run(up.astype(dtype), down.astype(dtype), signal.astype(dtype), state)
    y = fnp.moveaxis(y, -1, axis)
    return y if zi is None else (y, fnp.moveaxis(state, -1, axis))


def lfilter_zi(b: ArrayLike, a: ArrayLike) -> Tensor:
    """The state in which a filter answers a constant 1 with a constant.

    Parameters
    ----------
    b, a : array_like, shapes (m,) and (n,)

    Returns
    -------
    Tensor, shape (max(m, n) - 1,)

    Examples
    --------
    >>> lfilter_zi([1.0], [1.0, -0.5])
    Tensor([1.])
    """
    up, down = _normalized("lfilter_zi", b, a)
    order = up.shape[0] - 1
    # The state goes on as z[i] = z[i + 1] + b[i + 1] - a[i + 1] y, where y = b[0] + z[0].
    feedback = fnp.concatenate([down[1:, None], fnp.zeros((order, max(order - 1, 0)))], axis=1)
    matrix = fnp.eye(order) - fnp.eye(order, k=1) + feedback[:, :order]
    return fnp.linalg.solve(matrix, up[1:] - down[1:] * up[0])


def filtfilt(
    b: ArrayLike,
    a: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Tensor:
    """Filter a signal forwards and backwards, so that no frequency is delayed.

    Parameters
    ----------
    b, a, x, axis
        See ``lfilter``.
    padtype : str or None
        How the signal goes on at both ends: ``"odd"``, ``"even"``, ``"constant"``, or None.
    padlen : int, optional
        By so many samples; by default three times the number of coefficients.
    method : str
        ``"pad"``.
    irlen : int, optional
        Belongs to SciPy's method ``"gust"``, and is ignored.

    Returns
    -------
    Tensor

    Raises
    ------
    MissingOptionError
        ``method="gust"``, which is not here.

    Examples
    --------
    >>> filtfilt([0.5, 0.5], [1.0], [0.0, 0.0, 1.0, 0.0, 0.0], padlen=2)
    Tensor([0.  , 0.25, 0.5 , 0.25, 0.  ])
    """
    if not isinstance(method, str) or method != "pad":
        raise MissingOptionError(
            f"filtfilt: method={method!r} is not supported, only 'pad', which extends the signal."
        )
    up, down = _normalized("filtfilt", b, a)
    signal = with_axis_last("filtfilt", x, axis)
    count = 3 * up.shape[0] if padlen is None else integer(padlen, "filtfilt", "padlen")
    signal, count = _extended("filtfilt", signal, padtype, count)
    zi = lfilter_zi(up, down)
    for _ in range(2):
        answer = lfilter(up, down, signal, zi=zi * signal[..., :1])
        signal = fnp.flip(answer[0], axis=-1)
    return fnp.moveaxis(signal[..., count : signal.shape[-1] - count], -1, axis)


def sosfilt(
    sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """Filter a signal by sections of second order, one after the other.

    Parameters
    ----------
    sos : array_like, shape (n, 6)
        The coefficients of each section: three of the numerator, three of the denominator.
    x : array_like
    axis : int
    zi : array_like, optional
        The state of the sections: its first axis is theirs, and the signal's axis has 2 values.

    Returns
    -------
    Tensor or tuple of Tensor
        The filtered signal; with ``zi`` also the state after the last sample.

    Raises
    ------
    ShapeError
        ``sos`` or ``zi`` do not fit.

    Examples
    --------
    >>> sosfilt([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]], [1.0, 0.0, 0.0])
    Tensor([1.  , 0.5 , 0.25])
    """
    sections = _sections("sosfilt", sos)
    signal = with_axis_last("sosfilt", x, axis)
    shape = (sections.shape[0], *signal.shape[:-1], 2)
    state = None
    if zi is not None:
        state = inexact(zi)
        state = fnp.moveaxis(state, axis + 1 if axis >= 0 else axis, -1)
        if state.shape != shape:
            raise ShapeError(
                f"sosfilt: zi has the shape {np.shape(zi)}; it needs an axis of"
                f" {shape[0]} sections, and then the signal's axes with 2 values along axis {axis}."
            )
    ends = []
    for k in range(shape[0]):
        start = fnp.zeros(shape[1:], signal.dtype) if state is None else state[k]
        answer = lfilter(sections[k, :3], sections[k, 3:], signal, zi=start)
        signal = answer[0]
        ends.append(answer[1])
    signal = fnp.moveaxis(signal, -1, axis)
    if zi is None:
        return signal
    return signal, fnp.moveaxis(fnp.stack(ends), -1, axis + 1 if axis >= 0 else axis)


def sosfilt_zi(sos: ArrayLike) -> Tensor:
    """The state in which sections answer a constant 1 with a constant; see ``lfilter_zi``.

    Parameters
    ----------
    sos : array_like, shape (n, 6)

    Returns
    -------
    Tensor, shape (n, 2)

    Examples
    --------
    >>> sosfilt_zi([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]])
    Tensor([[1., 0.]])
    """
    sections = _sections("sosfilt_zi", sos)
    states, gain = [], fnp.ones((), sections.dtype)
    for section in sections:
        states.append(gain * lfilter_zi(section[:3], section[3:]))
        gain = gain * fnp.sum(section[:3]) / fnp.sum(section[3:])
    return fnp.stack(states)


def sosfiltfilt(
    sos: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
) -> Tensor:
    """Filter a signal by sections forwards and backwards; see ``filtfilt``.

    By default ``padlen`` is three times the number of coefficients that a single quotient would
    have, without common zeros at its end, which depends on values: see SciPy.

    Examples
    --------
    >>> section = [[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]]
    >>> sosfiltfilt(section, [0.0, 0.0, 1.0, 0.0, 0.0], padlen=2)
    Tensor([0.  , 0.25, 0.5 , 0.25, 0.  ])
    """
    sections = _sections("sosfiltfilt", sos)
    signal = with_axis_last("sosfiltfilt", x, axis)
    if padlen is None:
        ends = [int(fnp.sum(sections[:, column] == 0)) for column in (2, 5)]
        padlen = 3 * (2 * sections.shape[0] + 1 - min(ends))
    signal, count = _extended(
        "sosfiltfilt", signal, padtype, integer(padlen, "sosfiltfilt", "padlen")
    )
    states = sosfilt_zi(sections)
    states = fnp.reshape(states, (states.shape[0], *[1] * (signal.ndim - 1), 2))
    for _ in range(2):
        answer = sosfilt(sections, signal, zi=states * signal[None, ..., :1])
        signal = fnp.flip(answer[0], axis=-1)
    return fnp.moveaxis(signal[..., count : signal.shape[-1] - count], -1, axis)


def _normalized(operation: str, b: ArrayLike, a: ArrayLike) -> tuple[Tensor, Tensor]:
    """Coefficients of one length, divided by the first one of the denominator."""
    up, down = (fnp.atleast_1d(inexact(x)) for x in (b, a))
    if up.ndim != 1 or down.ndim != 1 or not up.size or not down.size:
        raise ShapeError(
            f"{operation}: the coefficients have the shapes {up.shape} and {down.shape}. Pass"
            " vectors; for several filters fg.vmap."
        )
    size = max(up.shape[0], down.shape[0])
    first = down[0]
    known = concrete(first)
    if not is_unknown(known) and known == 0:
        raise ArgumentError(f"{operation}: a[0] is 0; outputs are divided by it. Leave it out.")
    up, down = (fnp.pad(x, (0, size - x.shape[0])) / first for x in (up, down))
    return up, down


def _sections(operation: str, sos: ArrayLike) -> Tensor:
    sections = inexact(sos)
    if sections.ndim != 2 or sections.shape[1] != 6 or not sections.shape[0]:
        raise ShapeError(f"{operation}: sos has the shape {sections.shape}; it needs (n, 6).")
    return sections


def _extended(
    operation: str, signal: Tensor, padtype: str | None, count: int
) -> tuple[Tensor, int]:
    one_of(operation, "padtype", padtype, ("odd", "even", "constant", None))
    if padtype is None or count == 0:
        return signal, 0
    if count < 0 or signal.shape[-1] <= count:
        raise ShapeError(
            f"{operation}: padlen is {count} for a signal of {signal.shape[-1]} samples. It has to"
            " be less; pass a padlen or a longer signal."
        )
    return extended(operation, signal, count, padtype), count


def _run(up: Tensor, down: Tensor, signal: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The output and the last state of a filter along the last axis."""
    if not up.shape[0] - 1:
        return up[0] * signal, state

    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        y = up[0] * x + state[..., 0]
        later = fnp.concatenate([state[..., 1:], fnp.zeros_like(state[..., :1])], axis=-1)
        return later + up[1:] * x[..., None] - down[1:] * y[..., None], y

    last, outputs = scan(step, state, fnp.moveaxis(signal, -1, 0))
    return fnp.moveaxis(outputs, 0, -1), last
