"""Laws of derivatives: forward = reverse = numerical, symmetric Hessians, the chain rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcgrad._core.pytrees import flatten, unflatten
from funcgrad._core.trace import Value
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.testing.gradients import compare_with_numerical
from funcgrad.testing.laws.trials import Claim, LawAtPoint, arrays, judge, tensors, trial_of
from funcgrad.testing.numerical import inner
from funcgrad.testing.report import number
from funcgrad.testing.subject import Array, subject_of


def modes_agree(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that forward and reverse mode agree: ⟨w, Jv⟩ = ⟨Jᵀw, v⟩.

    Parameters
    ----------
    f : callable
        A function of pytrees that returns a pytree, of real or complex arrays. Integers and
        booleans are constant.
    args : tuple of pytrees
        The point, which may be at a kink.
    seed : int
        The seed of the direction v and the cotangents w.

    Raises
    ------
    CheckError
        The modes differ by more than rounding.
    DifferentiationError
        The arguments or the results have no floating-point or complex leaf.

    Examples
    --------
    >>> import funcgrad as fg
    >>> modes_agree(lambda x, y: fg.numpy.hypot(x, y), (0.0, fg.tensor([0.0, 2.0])))
    """
    trial = trial_of("laws.modes_agree", f, args, seed)
    direction = trial.direction()
    cts = trial.cotangents(jvp_of(trial, trial.point, direction))

    def compute(point: Sequence[Array]) -> tuple[list[Array], list[Array], list[Any]]:
        return _products(trial, point, direction, cts)

    def details() -> list[str]:
        """Compare along each argument separately."""
        lines = ["  along each argument separately:"]
        for k, name in enumerate(trial.subject.names):
            alone = [t if i == k else t * 0 for i, t in enumerate(direction)]
            (forward,), (reverse,), _ = _products(trial, trial.point, alone, cts)
            numbers = f"forward {number(forward.item())}, reverse {number(reverse.item())}"
            lines.append(f"    {name}  {numbers}")
        return lines

    judge(
        trial,
        Claim(
            f"forward and reverse mode disagree for {trial.subject.title} (order 1).",
            ("forward", "reverse"),
            ["⟨w, J v⟩"],
            compute,
            details,
        ),
    )


def jvp_of(trial: LawAtPoint, point: Sequence[Array], direction: Sequence[Array]) -> list[Array]:
    """Return the tangents of the results."""
    pushed = jvp(trial.subject.function, tuple(tensors(point)), tensors(direction))[1]
    return arrays(pushed)


def vjp_of(trial: LawAtPoint, point: Sequence[Array], cts: Sequence[Array]) -> list[Array]:
    """Return the cotangents of the arguments."""
    return arrays(vjp(trial.subject.function, *tensors(point))[1](tensors(cts)))


def _products(
    trial: LawAtPoint, point: Sequence[Array], direction: Sequence[Array], cts: Sequence[Array]
) -> tuple[list[Array], list[Array], list[Any]]:
    pushed, pulled = jvp_of(trial, point, direction), vjp_of(trial, point, cts)
    forward = [inner(ct, t) for ct, t in zip(cts, pushed, strict=True)]
    reverse = [inner(g, v) for g, v in zip(pulled, direction, strict=True)]
    pairs = [*zip(cts, pushed, strict=True), *zip(pulled, direction, strict=True)]
    beside = sum([float((abs(a) * abs(b)).sum()) for a, b in pairs])
    return arrays([sum(forward)]), arrays([sum(reverse)]), [beside]


def grad_is_numerical(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check first derivatives in both modes against numerical ones, as ``check_grads`` does.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``. The point should not be a kink.

    Raises
    ------
    CheckError
        A derivative is wrong, or the point is at a kink; the message tells which.

    Examples
    --------
    >>> import funcgrad as fg
    >>> grad_is_numerical(lambda p: p["a"] ** 2 * p["b"], ({"a": 0.5, "b": fg.tensor([1.0, 2.0])},))
    """
    trial = trial_of("laws.grad_is_numerical", f, args, seed)
    compare_with_numerical(trial.subject, trial.rng, trial.fail)


def hessian_symmetric(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that second derivatives are symmetric: D²f[u, v] = D²f[v, u].

    If a custom rule is wrong, its "first derivative" is usually not the derivative of any function,
    and the Hessian is not symmetric. Forward over forward and forward over reverse mode are
    checked.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``.

    Raises
    ------
    CheckError
        The second derivatives differ by more than rounding.

    Examples
    --------
    >>> import funcgrad as fg
    >>> hessian_symmetric(lambda x: fg.numpy.sum(fg.numpy.outer(x, x**2)), (fg.tensor([0.5, 1.5]),))
    """
    trial = trial_of("laws.hessian_symmetric", f, args, seed)
    subject, u, v = trial.subject, trial.direction(), trial.direction()
    cts = trial.cotangents(jvp_of(trial, trial.point, u))

    def forward(point: Sequence[Array], one: list[Array], other: list[Array]) -> list[Array]:
        def along(*x: Value) -> Any:
            return jvp(subject.function, x, tensors(one))[1]

        return arrays(jvp(along, tuple(tensors(point)), tensors(other))[1])

    def reverse(point: Sequence[Array], one: list[Array], other: list[Array]) -> float:
        def pulled(*x: Value) -> Any:
            return vjp(subject.function, *x)[1](tensors(cts))

        rows = arrays(jvp(pulled, tuple(tensors(point)), tensors(one))[1])
        return sum([inner(h, t) for h, t in zip(rows, other, strict=True)])

    def compute(point: Sequence[Array]) -> tuple[list[Array], list[Array], list[Any]]:
        first = [*forward(point, u, v), *arrays([reverse(point, u, v)])]
        second = [*forward(point, v, u), *arrays([reverse(point, v, u)])]
        scale = [float(abs(value).max(initial=0.0)) for value in jvp_of(trial, point, u)]
        total = sum([float((abs(ct)).sum()) * s for ct, s in zip(cts, scale, strict=True)])
        return first, second, [*scale, total]

    judge(
        trial,
        Claim(
            f"the second derivative of {subject.title} depends on the order of the directions"
            " (order 2): a first derivative is wrong, or the derivative of its rule is.",
            ("D²f[u, v]", "D²f[v, u]"),
            [*subject.result_names, "⟨w, D²f[u, v]⟩, by forward over reverse mode"],
            compute,
        ),
    )


def chain_rule(outer: Callable[..., Any]) -> Callable[..., None]:
    """Make the law of the chain rule: the derivative of ``outer(f(x))`` is a product.

    Parameters
    ----------
    outer : callable
        A function of the result of ``f``.

    Returns
    -------
    callable
        A law ``(f, args, *, seed=0)``. It raises a ``CheckError`` if, in either mode, the
        derivative of the composition is not the product.

    Examples
    --------
    >>> import funcgrad as fg
    >>> chain_rule(fg.numpy.sum)(fg.numpy.sin, (fg.tensor([0.5, 1.25]),))
    """

    def law(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
        trial = trial_of(law.__name__, f, args, seed)
        out, structure = flatten(f(*args))
        second = subject_of(law.__name__, outer, (unflatten(structure, out),), None)
        whole = trial_of(law.__name__, lambda *x: outer(f(*x)), args, seed)
        direction, cts = trial.direction(), whole.cotangents()

        def compute(point: Sequence[Array]) -> tuple[list[Array], list[Array], list[Any]]:
            x = tensors(point)
            middle, pushed = jvp(trial.subject.function, tuple(x), tensors(direction))
            forward = arrays(jvp(second.function, tuple(middle), pushed)[1])
            pulled = vjp(second.function, *middle)[1](tensors(cts))
            reverse = arrays(vjp(trial.subject.function, *x)[1](list(pulled)))
            whole_ones = [*jvp_of(whole, point, direction), *vjp_of(whole, point, cts)]
            return whole_ones, [*forward, *reverse], [0.0] * len(whole_ones)

        results = [f"tangent of {name}" for name in whole.subject.result_names]
        gradients = [f"gradient in {name}" for name in trial.subject.names]
        sentence = f"the chain rule does not hold for {trial.subject.title} (order 1)."
        labels = ("composition", "product")
        judge(trial, Claim(sentence, labels, [*results, *gradients], compute))

    return named(law, "chain_rule", outer)


def named(law: Callable[..., None], name: str, *options: object) -> Callable[..., None]:
    """Name a law as users wrote it, with its options."""
    inside = [getattr(option, "__name__", repr(option)) for option in options]
    law.__name__ = law.__qualname__ = f"laws.{name}({', '.join(inside)})"
    law.__doc__ = f"Check the law {law.__name__} of a function at a point."
    return law
