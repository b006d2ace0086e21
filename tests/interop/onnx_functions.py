"""Functions of parameters and data that become ONNX's models."""

from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn

X = np.array([[0.3, -1.0, 2.0], [1.5, 0.2, -0.4]])
PARAMS = {"w": np.linspace(-1, 1, 6).reshape(3, 2), "b": np.array([0.1, -0.2])}


def loss(params: Any, x: Any) -> Any:
    return fnp.sum(fnp.tanh(x @ params["w"] + params["b"]) ** 2)


FUNCTIONS: dict[str, Any] = {
    "gradient": lambda p, x: fg.grad(loss)(p, x),
    "value and gradient": lambda p, x: fg.value_and_grad(loss)(p, x),
    "forward mode": lambda p, x: fg.jvp(lambda x: loss(p, x), (x,), (x,)),
    "pullback": lambda p, x: fg.vjp(lambda x: fnp.cumsum(x, 1), x)[1](x),
    "examples": lambda p, x: fg.vmap(fg.grad(loss), (None, 0))(p, x),
    "Hessian": lambda p, x: fg.hessian(lambda b: loss({**p, "b": b}, x))(p["b"]),
    "checkpoint": lambda p, x: fg.grad(fg.checkpoint(loss))(p, x),
    "softmax": lambda p, x: nn.log_softmax(x @ p["w"])[:, ::-1],
    "indices": lambda p, x: x[:, np.array([2, 0, 2])] + x.at[0, 1].add(p["b"][0])[[1, 0]],
    "negative indices": lambda p, x: (
        x[np.array([-1, 0]), np.array([-2, -1])],
        x.at[np.array([-2, 1]), np.array([-1, -3])].add(p["b"]),
    ),
    "scan": lambda p, x: fg.scan(lambda c, r: (c * 0.5 + r, c), x[0], x, reverse=True),
    "while": lambda p, x: fg.while_loop(lambda c: fnp.sum(c) < 50, lambda c: c * 2 + 1, fnp.abs(x)),
    "while, gradient": lambda p, x: fg.grad(
        lambda x: fg.while_loop(lambda c: c < 9.0, lambda c: c * c + 1.0, fnp.sum(x))
    )(fnp.abs(x)),
    "branches": lambda p, x: fg.switch(
        fnp.argmax(x[0]), [fnp.sin, fnp.cos, lambda x: -x, fnp.exp], x
    ),
    "branch, gradient": lambda p, x: fg.grad(
        lambda x: fg.cond(x[0, 0] > 0, lambda x: fnp.sum(x**2), lambda x: fnp.sum(x), x)
    )(x),
    "draws": lambda p, x: fg.random.normal(fg.random.key(3), x.shape) * x,
    "equations": lambda p, x: fnp.linalg.solve(x @ x.T + fnp.eye(2), p["b"]),
    "cholesky, gradient": lambda p, x: fg.grad(
        lambda a: fnp.sum(fnp.linalg.cholesky(a @ a.T + fnp.eye(2)))
    )(x),
    "sorted, gradient": lambda p, x: fg.grad(lambda x: fnp.sum(fnp.sort(x)[:, 1] ** 2))(x),
    "custom": lambda p, x: nn.gelu(x, approximate=False) + nn.silu(x),
}
