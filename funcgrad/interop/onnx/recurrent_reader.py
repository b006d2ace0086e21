"""Read ONNX's recurrent layers: RNN, GRU and LSTM, in one direction or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad._control.scans import scan
from funcgrad._core.specs import dtype_of
from funcgrad.interop.onnx.reader_parts import OperatorNode, Read, Value

Activation = Callable[[Any], Any]


def _activation(
    node: OperatorNode, name: str, alpha: float | None, beta: float | None
) -> Activation:
    def number(value: float | None, usual: float) -> float:
        return usual if value is None else value

    activations: dict[str, Activation] = {
        "affine": lambda x: number(alpha, 1.0) * x + number(beta, 0.0),
        "elu": lambda x: nn.elu(x, number(alpha, 1.0)),
        "hardsigmoid": lambda x: fnp.clip(number(alpha, 0.2) * x + number(beta, 0.5), 0, 1),
        "leakyrelu": lambda x: nn.leaky_relu(x, number(alpha, 0.01)),
        "relu": nn.relu,
        "scaledtanh": lambda x: number(alpha, 1.0) * fnp.tanh(number(beta, 1.0) * x),
        "sigmoid": nn.sigmoid,
        "softplus": nn.softplus,
        "softsign": nn.softsign,
        "tanh": fnp.tanh,
        "thresholdedrelu": lambda x: fnp.where(x > number(alpha, 1.0), x, 0),
    }
    if name.lower() not in activations:
        raise node.unread(f"there is no activation {name}")
    return activations[name.lower()]


def _activations(
    node: OperatorNode, usual: Sequence[str], directions: int
) -> list[list[Activation]]:
    names = list(node.get("activations") or [*usual] * directions)
    alphas, betas = (
        list(node.get("activation_alpha") or ()),
        list(node.get("activation_beta") or ()),
    )
    made = [
        _activation(
            node,
            name,
            alphas[k] if k < len(alphas) else None,
            betas[k] if k < len(betas) else None,
        )
        for k, name in enumerate(names)
    ]
    return [made[d * len(usual) : (d + 1) * len(usual)] for d in range(directions)]


def _clipped(node: OperatorNode, x: Value) -> Value:
    limit = node.get("clip")
    return x if limit is None else fnp.clip(x, -limit, limit)


Step = Callable[[Any, Any, Any, Any], Any]
"""``(activations, weights, inputs, states) -> states``; the first state is the output."""


def _layer(
    node: OperatorNode,
    usual: Sequence[str],
    step: Step,
    x: Value,
    weights: Sequence[Value],
    lengths: Value,
    begins: Sequence[Value],
) -> tuple[Value, ...]:
    """Run a layer along time: outputs, and the last states, of all directions."""
    if node.get("layout", 0):
        x = fnp.swapaxes(x, 0, 1)
        begins = [b if b is None else fnp.swapaxes(b, 0, 1) for b in begins]
    size, batch = node.get("hidden_size"), np.shape(x)[1]
    size = np.shape(weights[1])[-1] if size is None else size
    directions = np.shape(weights[0])[0]
    functions = _activations(node, usual, directions)
    rows, lasts = [], []
    for d in range(directions):
        backwards = node.get("direction", "forward") == "reverse" or d == 1
        first = [
            fnp.zeros((batch, size), dtype_of(x)) if b is None else fnp.asarray(b)[d]
            for b in begins
        ]
        chosen = [None if w is None else fnp.asarray(w)[d] for w in weights]
        direction_step = partial(step, functions[d], chosen)
        outs, last = _along_time(direction_step, x, first, lengths, backwards)
        rows.append(outs)
        lasts.append(last)
    out = fnp.stack(rows, axis=1)  # time, direction, batch, size
    states = [fnp.stack([last[k] for last in lasts], axis=0) for k in range(len(begins))]
    if node.get("layout", 0):
        out = fnp.transpose(out, (2, 0, 1, 3))
        states = [fnp.swapaxes(state, 0, 1) for state in states]
    return (out, *states)


def _along_time(
    step: Callable[[Any, Any], Any], x: Value, first: list[Value], lengths: Value, backwards: bool
) -> tuple[Value, list[Value]]:
    """Go through the steps; examples that are shorter keep their states and have outputs 0."""

    def one(states: Any, row: Any) -> tuple[Any, Any]:
        now, xs = row
        new = step(xs, states)
        if lengths is None:
            return new, new[0]
        runs = fnp.expand_dims(fnp.asarray(now) < lengths, -1)
        states_now = [fnp.where(runs, a, b) for a, b in zip(new, states, strict=True)]
        return states_now, fnp.where(runs, new[0], 0)

    places = np.arange(np.shape(x)[0])
    last, outs = scan(one, list(first), (places, fnp.asarray(x)), reverse=backwards)
    return outs, list(last)


def _rnn_step(functions: Any, weights: Any, x: Any, states: Any) -> list[Any]:
    w, r, bias = weights
    (h,) = states
    total = x @ w.T + h @ r.T
    if bias is not None:
        total = total + sum(fnp.split(bias, 2))
    return [functions[0](total)]


def _rnn(
    node: OperatorNode,
    x: Value,
    w: Value,
    r: Value,
    bias: Value = None,
    lengths: Value = None,
    h: Value = None,
) -> Any:
    step = _with_clip(node, _rnn_step)
    return _layer(node, ("Tanh",), step, x, (w, r, bias), lengths, (h,))


def _with_clip(node: OperatorNode, step: Any) -> Step:
    """A step whose activations get clipped arguments."""

    def clipped(functions: Any, weights: Any, x: Any, states: Any) -> Any:
        bounded = [lambda v, f=f: f(_clipped(node, v)) for f in functions]
        return step(bounded, weights, x, states)

    return clipped if node.get("clip") is not None else step


def _gru(
    node: OperatorNode,
    x: Value,
    w: Value,
    r: Value,
    bias: Value = None,
    lengths: Value = None,
    h: Value = None,
) -> Any:
    behind = node.get("linear_before_reset", 0)

    def step(functions: Any, weights: Any, x: Any, states: Any) -> list[Any]:
        w, r, bias = weights
        (h,) = states
        wz, wr, wh = fnp.split(w, 3)
        rz, rr, rh = fnp.split(r, 3)
        zeros = [0.0] * 6
        bz, br, bh, cz, cr, ch = zeros if bias is None else fnp.split(bias, 6)
        update = functions[0](x @ wz.T + h @ rz.T + bz + cz)
        reset = functions[0](x @ wr.T + h @ rr.T + br + cr)
        inner = reset * (h @ rh.T + ch) if behind else (reset * h) @ rh.T + ch
        new = functions[1](x @ wh.T + inner + bh)
        return [(1 - update) * new + update * h]

    return _layer(node, ("Sigmoid", "Tanh"), _with_clip(node, step), x, (w, r, bias), lengths, (h,))


def _lstm(
    node: OperatorNode,
    x: Value,
    w: Value,
    r: Value,
    bias: Value = None,
    lengths: Value = None,
    h: Value = None,
    c: Value = None,
    peepholes: Value = None,
) -> Any:
    coupled = node.get("input_forget", 0)

    def step(functions: Any, weights: Any, x: Any, states: Any) -> list[Any]:
        w, r, bias, peeps = weights
        h, c = states
        total = x @ w.T + h @ r.T
        if bias is not None:
            total = total + sum(fnp.split(bias, 2))
        ins, out, forget, cell = fnp.split(total, 4, axis=-1)
        pi, po, pf = [0.0] * 3 if peeps is None else fnp.split(peeps, 3)
        f, g, last = functions
        let_in = f(ins + pi * c)
        keep = 1 - let_in if coupled else f(forget + pf * c)
        new = keep * c + let_in * g(cell)
        return [f(out + po * new) * last(new), new]

    return _layer(
        node,
        ("Sigmoid", "Tanh", "Tanh"),
        _with_clip(node, step),
        x,
        (w, r, bias, peepholes),
        lengths,
        (h, c),
    )


RECURRENT: Final[Mapping[str, Read]] = MappingProxyType({"GRU": _gru, "LSTM": _lstm, "RNN": _rnn})
