"""Functions of funcgrad in PyTorch, and PyTorch's in funcgrad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors, interop
from tests.interop.functions import (
    OURS,
    ROWS,
    X,
    check_complex,
    check_lifted,
    cube,
    loss,
    written_in,
)

torch = pytest.importorskip("torch")
# PyTorch's own forward mode compiles with what it calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

A = torch.tensor(1.5, dtype=torch.float64)
Y = torch.tensor(np.array(X))
BATCH = torch.tensor(ROWS)
FUNC = torch.func


def of_tensors(f: Any) -> Any:
    return lambda a, x: loss(f)({"a": a}, x)


def backward(f: Any) -> Any:
    a, x = A.clone().requires_grad_(), Y.clone().requires_grad_()
    of_tensors(f)(a, x).backward()
    return a.grad, x.grad


MODES: dict[str, Any] = {
    "value": lambda f: f({"a": A}, Y),
    "backward": backward,
    "double backward": lambda f: torch.autograd.functional.hessian(
        lambda x: of_tensors(f)(A, x), Y
    ),
    "grad": lambda f: FUNC.grad(of_tensors(f), argnums=(0, 1))(A, Y),
    "jvp": lambda f: FUNC.jvp(of_tensors(f), (A, Y), (A, Y)),
    "hessian": lambda f: FUNC.hessian(of_tensors(f), argnums=1)(A, Y),
    "reverse twice": lambda f: FUNC.jacrev(FUNC.jacrev(of_tensors(f), argnums=1), argnums=1)(A, Y),
    "vmap": lambda f: FUNC.vmap(of_tensors(f), in_dims=(None, 1))(A, BATCH.T),
    "vmap of grad": lambda f: FUNC.vmap(FUNC.grad(of_tensors(f)), in_dims=(None, 0))(A, BATCH),
    "grad of vmap": lambda f: FUNC.grad(
        lambda a: FUNC.vmap(of_tensors(f), in_dims=(None, 0))(a, BATCH).sum()
    )(A),
}


@pytest.mark.parametrize("mode", MODES)
def test_wrapped(mode: str) -> None:
    actual, expected = MODES[mode](interop.torch.wrap(OURS)), MODES[mode](written_in(torch))
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)


def test_torchs_checks_of_gradients() -> None:
    f = interop.torch.wrap(lambda x, y: fnp.sin(x) * y)
    args = (Y.clone().requires_grad_(), A.clone().requires_grad_())
    assert torch.autograd.gradcheck(f, args, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, args)


def test_complex_numbers() -> None:
    z = torch.tensor([1.0 + 2.0j, -0.5j], dtype=torch.complex128, requires_grad=True)
    gradients = [
        torch.autograd.grad((f(z).real * z.imag).sum(), z)[0]
        for f in (interop.torch.wrap(cube), cube)
    ]
    torch.testing.assert_close(*gradients)
    check_complex(interop.torch.lift(cube))


def test_nobody_writes_to_the_others_memory() -> None:
    constant = fg.tensor([1.0, 2.0])
    f = interop.torch.wrap(lambda x: (x, constant))
    x = torch.ones(2, dtype=torch.float64)
    out = f(x)
    x += 1.0
    out[1].add_(5.0)
    assert out[0].tolist() == [1.0, 1.0]
    assert constant.tolist() == [1.0, 2.0]
    spoiled = interop.torch.lift(lambda x: x.mul_(3.0))
    assert spoiled(constant).tolist() == [3.0, 6.0]
    assert constant.tolist() == [1.0, 2.0]


def test_float32_stays() -> None:
    x = torch.ones(3, requires_grad=True)
    out = interop.torch.wrap(lambda x, n: fnp.sum(x * n))(x, 2.0)
    out.backward()
    assert out.dtype == x.grad.dtype == torch.float32
    assert x.grad.tolist() == [2.0] * 3


def test_lifted() -> None:
    check_lifted(interop.torch.lift(written_in(torch)))


def test_modules() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
    ).double()
    apply, params = interop.torch.lift(net)
    gradient = fg.jit(fg.grad(lambda p, x: fnp.sum(apply(p, x))))(params, X)
    net(Y).sum().backward()
    for name, p in net.named_parameters():
        np.testing.assert_allclose(gradient[name], p.grad, rtol=1e-12)
    batched = fg.vmap(apply, in_axes=(None, 0))(params, ROWS)
    np.testing.assert_allclose(batched, net(BATCH).detach().numpy(), rtol=1e-12)


def test_mistakes() -> None:
    f = interop.torch.wrap(fnp.sin)
    with pytest.raises(errors.LeafError, match="no tensor among the arguments"):
        f(1.0)
    with pytest.raises(errors.LeafError, match=r"arguments\[0\] is of type ndarray"):
        f(np.ones(2))
    with pytest.raises(errors.FunctionError, match="wrap: expected a function"):
        interop.torch.wrap(3.0)  # type: ignore[arg-type]
    with pytest.raises(errors.FunctionError, match="lift: expected a function"):
        interop.torch.lift(3.0)
