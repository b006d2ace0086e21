"""Read ``If``, ``Loop`` and ``Scan``, and recurrent layers: RNN, GRU and LSTM.

Subgraphs become functions of control flow; recurrent layers are scans, in one or two directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad._control.choices import cond
from funcgrad._control.scans import scan
from funcgrad._control.whiles import while_loop
from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import RAW, concrete
from funcgrad.interop.onnx.element_reader import cast
from funcgrad.interop.onnx.library import OperatorNode, Read, Value, numbers


def _is_known(x: Value) -> bool:
    """Whether a value is concrete, under every transformation."""
    return type(concrete(x)) in RAW


def _run(node: OperatorNode, graph: str, inputs: list[Value]) -> list[Value]:
    assert node.run is not None
    return node.run(node.get(graph), inputs)


def _chosen(node: OperatorNode, condition: Value) -> tuple[Value, ...]:
    if _is_known(condition):
        taken = "then_branch" if bool(np.asarray(condition).reshape(())) else "else_branch"
        return tuple(_run(node, taken, []))
    return cond(
        fnp.reshape(condition, ()),
        lambda: tuple(map(fnp.asarray, _run(node, "then_branch", []))),
        lambda: tuple(map(fnp.asarray, _run(node, "else_branch", []))),
    )


def _looped(node: OperatorNode, limit: Value = None, condition: Value = None, *carry: Value) -> Any:
    """A loop: a scan if the count is known, else a loop while the condition holds."""
    start = [fnp.asarray(x) for x in carry]
    count = None if limit is None else numbers(node, limit, "M")[0]
    stacked = len(node.outputs) - len(start)
    if count is not None and _never_ends(node) and _is_true(condition):
        return _counted(node, count, start)
    if stacked:
        return _by_python(node, count, condition, start)

    def goes_on(state: Any) -> Any:
        place, going, _ = state
        return going if count is None else going & (place < count)

    def step(state: Any) -> Any:
        place, going, values = state
        going, *values = _run(node, "body", [place, going, *values])
        return place + 1, fnp.astype(fnp.reshape(going, ()), bool), list(map(fnp.asarray, values))

    going = fnp.asarray(True) if condition is None else fnp.reshape(condition, ())
    state = (fnp.asarray(np.int64(0)), fnp.astype(going, bool), start)
    return tuple(while_loop(goes_on, step, state)[2])


def _is_true(condition: Value) -> bool:
    return condition is None or (_is_known(condition) and bool(np.asarray(condition).all()))


def _never_ends(node: OperatorNode) -> bool:
    """Whether the body returns the condition unchanged, or always true."""
    body = node.get("body")
    name = body.output[0].name
    makers = {out: entry for entry in body.node for out in entry.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    return bool(name == body.input[1].name)


def _counted(node: OperatorNode, count: int, start: list[Value]) -> tuple[Value, ...]:
    carried = len(start)

    def step(values: Any, place: Any) -> Any:
        _, *outs = _run(node, "body", [place, np.asarray(True), *values])
        outs = list(map(fnp.asarray, outs))
        return outs[:carried], tuple(outs[carried:])

    last, stacks = scan(step, start, np.arange(max(count, 0)))
    return (*last, *stacks)


def _by_python(
    node: OperatorNode, count: int | None, condition: Value, values: list[Value]
) -> tuple[Value, ...]:
    """A Python loop, for stacks whose number of rows depends on the condition."""
    rows: list[list[Value]] = []
    place, going = 0, condition is None or bool(numbers(node, condition, "cond")[0])
    while going and (count is None or place < count):
        flag, *outs = _run(node, "body", [np.int64(place), np.asarray(True), *values])
        values, row = outs[: len(values)], outs[len(values) :]
        rows.append(row)
        going = bool(numbers(node, flag, "cond")[0])
        place += 1
    if not rows:
        return (*values, *[_no_rows(node, x) for x in node.get("body").output[1 + len(values) :]])
    return (*values, *[fnp.stack(list(column)) for column in zip(*rows, strict=True)])


def _no_rows(node: OperatorNode, info: Any) -> Value:
    """An empty stack, with the shape and dtype of rows that the body declares."""
    kind = info.type.tensor_type
    sizes = [entry.dim_value for entry in kind.shape.dim]
    if not kind.elem_type or 0 in sizes:
        raise node.unread("it takes no step, and the shapes of its stacks are not known")
    return cast(node, fnp.zeros((0, *sizes)), kind.elem_type)


def _scanned(node: OperatorNode, *inputs: Value) -> tuple[Value, ...]:
    if node.version < 9:
        raise node.unread("scans of batches, before version 9, are not supported")
    through = node.get("num_scan_inputs")
    start, arrays = inputs[: len(inputs) - through], inputs[len(inputs) - through :]
    axes = node.get("scan_input_axes") or [0] * through
    backwards = node.get("scan_input_directions") or [0] * through
    rows = [
        fnp.flip(moved, 0) if flag else moved
        for moved, flag in zip(
            [fnp.moveaxis(x, axis, 0) for x, axis in zip(arrays, axes, strict=True)],
            backwards,
            strict=True,
        )
    ]
    carried = len(start)

    def step(values: Any, row: Any) -> Any:
        outs = list(map(fnp.asarray, _run(node, "body", [*values, *row])))
        return outs[:carried], tuple(outs[carried:])

    last, stacks = scan(step, [fnp.asarray(x) for x in start], tuple(rows))
    out_axes = node.get("scan_output_axes") or [0] * len(stacks)
    out_backwards = node.get("scan_output_directions") or [0] * len(stacks)
    ordered = [
        fnp.moveaxis(fnp.flip(x, 0) if flag else x, 0, axis)
        for x, axis, flag in zip(stacks, out_axes, out_backwards, strict=True)
    ]
    return (*last, *ordered)


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
        raise node.unread(f"unknown activation {name}")
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
            node, name, alphas[k] if k < len(alphas) else None, betas[k] if k < len(betas) else None
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
    """Run a layer along time; return outputs and final states of all directions."""
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
    """Run the steps; shorter examples keep their states, and their outputs are 0."""

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
    """A step with clipped arguments of activations."""

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


LOOPS: Final[Mapping[str, Read]] = MappingProxyType(
    {"If": _chosen, "Loop": _looped, "Scan": _scanned, "GRU": _gru, "LSTM": _lstm, "RNN": _rnn}
)
