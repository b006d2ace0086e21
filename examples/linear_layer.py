"""Step along the gradient of an intermediate value
================================================

A linear layer takes its parameters by name from a store.

The layer's output ``h`` is neither an argument nor the result of the loss. Still its gradient is
available by name: ``fg.probe`` marks the value, ``probes=("h",)`` returns its gradient. By the
chain rule the gradient with respect to the weight is the outer product of the two ends::

    h = x @ W        dL/dW = outer(x, dL/dh)

With all of h positive, dL/dh is 1 for each of the 3 outputs. A step of 0.01 therefore lowers each
output by 0.01 times the square of x, and the loss by 3 * (1 + 4 + 9) * 0.01 = 0.42, every time.

The record of a step is freed as soon as its gradient is returned, by reference counting: nothing
else holds the record. A witness in the record shows it.

The store is a read-only mapping. It is loaded from a file if there is one, and otherwise
initialized; an update is a new store.

Run it with ``python examples/linear_layer.py [store.npz]``.
"""

import sys
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, random

# %%
# The store
# ---------
#
# An update makes a new store; the former one is unchanged.

Store: TypeAlias = Mapping[str, fg.Tensor]

X = fg.tensor([1.0, 2.0, 3.0])
LEARNING_RATE = 0.01


def initialized(key: fg.Tensor) -> Store:
    """Weights that keep all outputs positive for positive inputs."""
    return MappingProxyType({"layer.weight": random.uniform(key, (3, 3), minval=0.5, maxval=1.0)})


def loaded(path: Path) -> Store:
    """The store in a file."""
    with np.load(path) as arrays:
        return MappingProxyType({name: fg.tensor(arrays[name]) for name in arrays.files})


def load_or_initialize(path: Path | None, key: fg.Tensor) -> Store:
    return loaded(path) if path is not None and path.exists() else initialized(key)


def save(store: Store, path: Path) -> None:
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in store.items()}
    np.savez(path, **arrays)


def updated(store: Store, name: str, value: fg.Tensor) -> Store:
    """A new store in which one name stands for another value."""
    return MappingProxyType({**store, name: value})


# %%
# The loss
# --------
#
# ``fg.probe`` marks the output of the layer by a name.


class Witness:
    """Put into the record of a step by ``watched``, and alive for as long as the record is."""


def watched(x: fg.Tensor, witness: Witness) -> fg.Tensor:
    """The identity, whose rule saves the witness for the backward pass."""

    @fg.custom_vjp
    def identity(x: fg.Tensor) -> fg.Tensor:
        return x

    identity.defvjp(lambda x: (x, witness), lambda saved, ct: (ct,))
    return identity(x)


def loss_and_gradient(store: Store, witness: Witness) -> tuple[fg.Tensor, fg.Tensor]:
    """The sum of the positive outputs, and its gradient with respect to the outputs."""

    def loss(x: fg.Tensor) -> fg.Tensor:
        h = fg.probe(x @ store["layer.weight"], "h")
        return fnp.sum(nn.relu(watched(h, witness)))

    value, (_, gradients) = fg.value_and_grad(loss, probes=("h",))(X)
    return value, gradients["h"]


# %%
# The step
# --------


class Step(NamedTuple):
    """The values of one step."""

    loss: float
    output_gradient: fg.Tensor
    store: Store
    record_is_gone: bool


def step(store: Store) -> Step:
    """Update the layer's weight, from the gradient with respect to its output."""
    witness = Witness()
    reference = weakref.ref(witness)
    loss, gradient = loss_and_gradient(store, witness)
    del witness  # from here on only the record could hold it
    weight = store["layer.weight"] - LEARNING_RATE * fnp.outer(X, gradient)
    new = updated(store, "layer.weight", weight)
    return Step(float(loss), gradient, new, reference() is None)


# %%
# The result
# ----------


def main(path: Path | None = None, steps: int = 5) -> list[Step]:
    store = load_or_initialize(path, random.key(0))
    history: list[Step] = []
    for number in range(steps):
        taken = step(store)
        print(
            f"step {number}: loss {taken.loss:.4f}, gradient in h {taken.output_gradient.tolist()},"
            f" record {'gone' if taken.record_is_gone else 'alive'}"
        )
        history.append(taken)
        store = taken.store
    if path is not None:
        save(store, path)
    return history


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
