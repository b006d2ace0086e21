"""Any expression of Einstein's summation convention, as a sequence of simple primitives.

``parse`` converts user input to one form: an index letter for every axis. ``einsum`` then takes
diagonals if an argument repeats an index, sums over indices that only one argument has, and
contracts two arguments at a time. Each step has a simple differential, and the order of
contractions is nearly optimal.

>>> parse(("ij,jk",), ((2, 3), (3, 4)))
(('ij', 'jk'), 'ik')
>>> einsum((np.ones((2, 3)), np.ones((3, 4))), ("ij", "jk"), "ik")[0, 0]
np.float64(3.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import prod
from typing import Any, Final, NoReturn

import numpy as np

from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.structure.structures import LETTERS
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import contract
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.products import split_subscripts
from funcgrad._primitives.reduction import reduce_any, reduce_sum
from funcgrad._primitives.structural import cast, reshape, transpose, view
from funcgrad.errors import ShapeError

_SYMBOLS: Final = LETTERS[26:] + LETTERS[:26]  # in the order in which they sort
_REST: Final = "."  # stands for an ellipsis

Path = Sequence[Sequence[int]]


def _refuse(subscripts: object, cause: str) -> NoReturn:
    raise ShapeError(f"einsum({subscripts!r}): {cause}")


# From user input to a letter for every axis.


def parse(subscripts: Sequence[Any], shapes: Sequence[Shape]) -> tuple[tuple[str, ...], str]:
    """The letters of each operand's axes and of the result's.

    Parameters
    ----------
    subscripts : sequence
        Either one string, such as "ij,...j->i...", or a list of integers and Ellipsis for each
        operand and, optionally, for the result.
    shapes : sequence of Shape
        The operands' shapes.

    Raises
    ------
    ShapeError
        The subscripts are malformed, or do not fit the number of operands or of their axes.
    """
    if len(subscripts) == 1 and isinstance(subscripts[0], str):
        shown: Any = subscripts[0]
        terms, arrow, result = _compressed(shown).partition("->")
        inputs = tuple(terms.split(","))
        output = result if arrow else None
    else:
        shown = list(subscripts)
        inputs = tuple(_letters_of(labels) for labels in subscripts[: len(shapes)])
        result_labels = subscripts[len(shapes) :]
        output = _letters_of(result_labels[0]) if result_labels else None
    for term in inputs if output is None else (*inputs, output):
        for letter in term:
            if letter not in _SYMBOLS and letter != _REST:
                _refuse(shown, f"{letter!r} is not an index; those are the letters a-z and A-Z.")
        if term.count(_REST) > 1:
            _refuse(shown, "an operand has more than one ellipsis.")
    if len(inputs) != len(shapes):
        _refuse(shown, f"it names {len(inputs)} operands, but {len(shapes)} were given.")
    return _without_ellipsis(inputs, output, shapes, shown)


def _compressed(subscripts: str) -> str:
    text = subscripts.replace(" ", "").replace("...", _REST)
    if subscripts.replace("...", "").count("."):
        _refuse(subscripts, "a '.' is not part of an ellipsis '...'.")
    return text


def _letters_of(labels: Iterable[Any]) -> str:
    letters = ""
    for label in labels:
        if label is Ellipsis:
            letters += _REST
        elif isinstance(label, (int, np.integer)) and 0 <= label < len(_SYMBOLS):
            letters += _SYMBOLS[label]
        else:
            _refuse(list(labels), f"an index has to be Ellipsis or in 0 .. 51, not {label!r}.")
    return letters


def _without_ellipsis(
    inputs: tuple[str, ...], output: str | None, shapes: Sequence[Shape], shown: str
) -> tuple[tuple[str, ...], str]:
    """Letters for the axes of ellipses, aligned at the last axis."""
    counts = []
    for term, shape in zip(inputs, shapes, strict=True):
        named = len(term) - term.count(_REST)
        count = len(shape) - named
        if count < 0 or (count > 0 and _REST not in term):
            text = term.replace(_REST, "...")
            _refuse(shown, f"{text!r} does not fit an operand of {len(shape)} axes: {shape}.")
        counts.append(count if _REST in term else 0)
    used = set("".join(inputs)) | set(output or "")
    most = max(counts, default=0)
    unused = [letter for letter in LETTERS if letter not in used][:most]
    if len(unused) < most:
        _refuse(shown, "it needs more than 52 indices.")
    letters = "".join(unused)
    expanded = tuple(
        term.replace(_REST, letters[most - count :])
        for term, count in zip(inputs, counts, strict=True)
    )
    if output is None:
        together = "".join(inputs)
        once = sorted(letter for letter in set(together) - {_REST} if together.count(letter) == 1)
        return expanded, letters + "".join(once)
    if letters and _REST not in output:
        _refuse(shown, "the result lacks the ellipsis that an operand has.")
    output = output.replace(_REST, letters)
    if len(set(output)) != len(output):
        _refuse(shown, "the result has an index twice.")
    if not set(output) <= set("".join(expanded)):
        _refuse(shown, "the result has an index that no operand has.")
    return expanded, output


def is_contraction(subscripts: str, first_shape: Shape, second_shape: Shape) -> bool:
    """Whether ``contract`` takes a user's subscripts as they are.

    Mostly they are, and the general way costs five times as much on small arrays.

    >>> is_contraction("ij,jk->ik", (2, 3), (3, 4)), is_contraction("ij,j", (2, 3), (3,))
    (True, False)
    """
    first, second, out = split_subscripts(subscripts)
    letters = first + second + out
    if not (letters.isascii() and letters.isalpha()):
        return False
    first_letters, second_letters, out_letters = set(first), set(second), set(out)
    if (len(first_letters), len(second_letters), len(out_letters)) != (
        len(first_shape),
        len(second_shape),
        len(out),
    ):
        return False
    if len(first) != len(first_letters) or len(second) != len(second_letters):
        return False
    if not (first_letters ^ second_letters) <= out_letters <= (first_letters | second_letters):
        return False
    sizes = dict(zip(first, first_shape, strict=True))
    return all(sizes.get(c, n) == n for c, n in zip(second, second_shape, strict=True))


# From letters to primitives.


def einsum(
    operands: Sequence[Value], inputs: Sequence[str], output: str, path: Path | None = None
) -> Value:
    """The sum over all indices that ``output`` lacks of the operands' products.

    Parameters
    ----------
    operands : sequence of values
    inputs : sequence of str
        A letter for each axis.
    output : str
        Distinct letters, each in some operand.
    path : sequence of sequences of int, optional
        Which operands to contract in each step, as from ``np.einsum_path``; results go to the end.
        By default in a greedy order.

    Raises
    ------
    ShapeError
        An index has two sizes, neither of them 1.
    """
    sizes = _sizes(operands, inputs)
    factors = [
        _distinct(*_full_sized(x, letters, sizes))
        for x, letters in zip(operands, inputs, strict=True)
    ]
    factors = _alike(factors, output)
    steps = iter(path) if path is not None else None
    while True:
        factors = [
            _summed(x, letters, output, [other for j, (_, other) in enumerate(factors) if j != i])
            for i, (x, letters) in enumerate(factors)
        ]
        if len(factors) == 1:
            return _ordered(*factors[0], output)
        chosen = _greedy(factors, output, sizes) if steps is None else next(steps, (0, 1))
        factors = _contracted(factors, chosen, output)


def _alike(factors: list[tuple[Value, str]], output: str) -> list[tuple[Value, str]]:
    """Compute in the precision of the result if sums and products precede the last contraction.

    Otherwise booleans would be reduced as booleans, and integers would wrap around.
    """
    dtypes = {dtype_of(x) for x, _ in factors}
    together = output + "".join(letters for _, letters in factors)
    if len(dtypes) == 1 or (len(factors) == 2 and all(together.count(c) > 1 for c in together)):
        return factors
    common = np.result_type(*dtypes)
    real = common if common.kind != "c" else np.dtype(common.char.lower())
    targets = [common if dtype_of(x).kind == "c" else real for x, _ in factors]
    return [
        (x if dtype_of(x) == target else cast(x, dtype=target), letters)
        for (x, letters), target in zip(factors, targets, strict=True)
    ]


def _sizes(operands: Sequence[Value], inputs: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for x, letters in zip(operands, inputs, strict=True):
        operand_sizes: dict[str, int] = {}
        for letter, size in zip(letters, shape_of(x), strict=True):
            if operand_sizes.setdefault(letter, size) != size:
                raise ShapeError(
                    f"einsum: the axes that share the index {letter!r} have the sizes"
                    f" {operand_sizes[letter]} and {size} in an operand of shape {shape_of(x)}."
                )
        for letter, size in operand_sizes.items():
            known = sizes.setdefault(letter, size)
            if known == 1:
                sizes[letter] = size
            elif size not in (1, known):
                raise ShapeError(
                    f"einsum: the index {letter!r} has the sizes {known} and {size} in operands of"
                    f" the shapes {', '.join(str(shape_of(operand)) for operand in operands)}."
                )
    return sizes


def _full_sized(x: Value, letters: str, sizes: dict[str, int]) -> tuple[Value, str]:
    """Remove axes of size 1 whose index the other operands have, too: they broadcast."""
    shape = shape_of(x)
    axes = [i for i, letter in enumerate(letters) if shape[i] == sizes[letter]]
    if len(axes) == len(letters):
        return x, letters
    return reshape(x, shape=tuple([shape[i] for i in axes])), "".join(letters[i] for i in axes)


def _distinct(x: Value, letters: str) -> tuple[Value, str]:
    """The diagonal along axes that share an index."""
    while len(set(letters)) < len(letters):
        letter = next(letter for letter in letters if letters.count(letter) > 1)
        first = letters.index(letter)
        second = letters.index(letter, first + 1)
        others = [i for i in range(len(letters)) if i not in (first, second)]
        x = transpose(x, axes=(*others, first, second))
        size = shape_of(x)[-1]
        x = reshape(x, shape=(*shape_of(x)[:-2], size * size))
        x = view(x, key=Key((..., slice(None, None, size + 1))))  # the diagonal, laid out flat
        letters = "".join(letters[i] for i in others) + letter
    return x, letters


def _summed(x: Value, letters: str, output: str, others: Sequence[str]) -> tuple[Value, str]:
    """Sum over the indices that only this operand has."""
    alone = [
        i
        for i, letter in enumerate(letters)
        if letter not in output and not any(letter in other for other in others)
    ]
    if not alone:
        return x, letters
    dtype = dtype_of(x)
    reduce = reduce_any if dtype.kind == "b" else reduce_sum
    x = reduce(x, axis=tuple(alone), keepdims=False)
    if dtype_of(x) != dtype:  # a sum widens small integers, an einsum does not
        x = cast(x, dtype=dtype)
    return x, "".join(letter for i, letter in enumerate(letters) if i not in alone)


def _greedy(
    factors: Sequence[tuple[Value, str]], output: str, sizes: dict[str, int]
) -> tuple[int, int]:
    """The pair whose product saves most memory, as opt_einsum's greedy path chooses.

    Reference: D. G. A. Smith and J. Gray, "opt_einsum", Journal of Open Source Software 3 (2018).
    """
    if len(factors) == 2:
        return 0, 1

    def growth(pair: tuple[int, int]) -> int:
        first, second = factors[pair[0]][1], factors[pair[1]][1]
        result = _result(factors, pair, output)
        volume = [prod(sizes[letter] for letter in term) for term in (result, first, second)]
        return volume[0] - volume[1] - volume[2]

    return min(combinations(range(len(factors)), 2), key=growth)


def _result(factors: Sequence[tuple[Value, str]], pair: Sequence[int], output: str) -> str:
    """The indices of the product of two factors that are still needed after it."""
    needed = output + "".join(term for i, (_, term) in enumerate(factors) if i not in pair)
    first, second = factors[pair[0]][1], factors[pair[1]][1]
    letters = first + "".join(letter for letter in second if letter not in first)
    if len(factors) == 2:
        return output
    return "".join(letter for letter in letters if letter in needed)


def _contracted(
    factors: list[tuple[Value, str]], chosen: Sequence[int], output: str
) -> list[tuple[Value, str]]:
    """One step of a path: the product of the chosen factors goes to the end."""
    others = [factor for i, factor in enumerate(factors) if i not in chosen]
    product = [factors[i] for i in chosen]
    while len(product) > 1:
        (x, first), (y, second) = product[:2]
        result = _result([*product, *others], (0, 1), output)
        product = [(contract(x, y, subscripts=f"{first},{second}->{result}"), result), *product[2:]]
    return [*others, *product]


def _ordered(x: Value, letters: str, output: str) -> Value:
    if letters == output:
        return x
    return transpose(x, axes=tuple([letters.index(letter) for letter in output]))
