"""The text of errors about non-finite results.

>>> from funcgrad.debug.causes import Cause
>>> log = Cause("log", "model.py:3", text="log(0.0) = -inf", place=(1,), spoilt=1, remedy="clip x")
>>> print(report("nans: loss", [("['a']", np.array([1.0, np.nan]))], [log]))
nans: loss: result['a'][1] is nan (1 of 2 elements are not finite).
  Cause: log at model.py:3: log(0.0) = -inf, at [1].
    Remedy: clip x.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcgrad._core.trace import Raw
from funcgrad.debug.causes import Cause

_MOST = 5
"""The maximum number of causes that are shown."""


def report(
    title: str, bad: Sequence[tuple[str, Any]], causes: Sequence[Cause], word: str = "result"
) -> str:
    """Return the message: which results are not finite, and why.

    Parameters
    ----------
    title : str
    bad : sequence of pairs
        The path and the value of the leaves that are not finite.
    causes : sequence of Cause
    word : str
        The word for the results, such as "gradient".
    """
    lines = [f"{title}: {_result(word, *bad[0])}."]
    if len(bad) > 1:
        others = ", ".join([f"{word}{path}" for path, _ in bad[1 : 1 + _MOST]])
        more = f", and {len(bad) - 1 - _MOST} more" if len(bad) > 1 + _MOST else ""
        lines.append(f"  Not finite either: {others}{more}.")
    for number, cause in enumerate(causes[:_MOST]):
        lines += _told(cause, "Cause" if len(causes) == 1 else f"Cause {number + 1}")
    if len(causes) > _MOST:
        lines.append(f"  {len(causes) - _MOST} more causes spoil fewer elements.")
    if not causes:
        lines.append(
            "  A second call with the same arguments did not show the cause: the function reads"
            " something that changes, computes with plain NumPy, or the compiled program rounds"
            " differently from the single operations."
        )
    return "\n".join(lines)


def _result(word: str, path: str, value: Raw) -> str:
    array = np.asarray(value)
    odd = ~np.isfinite(array)
    place = np.unravel_index(int(np.argmax(odd)), array.shape)
    where = _index(tuple(map(int, place)))
    name = f"{word}{path}{where}" if path or where else f"the {word}"
    count = int(np.count_nonzero(odd))
    of = f" ({count} of {array.size} elements are not finite)" if array.size > 1 else ""
    return f"{name} is {array[place].item()!r}{of}"


def _index(place: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, place))}]" if place else ""


def _told(cause: Cause, word: str) -> list[str]:
    spoils = f" It spoils {cause.spoilt} elements." if cause.spoilt > 1 else ""
    lines = [f"  {word}: {_sentence(cause)}.{spoils}"]
    for origin in cause.origins[:3]:
        told = _sentence(origin)
        lines.append(
            f"    The infinity is from {told}."
            if origin.operation
            else f"    {told[0].upper()}{told[1:]}."
        )
    lines += [f"    {text[0].upper()}{text[1:]}." for text in cause.partners]
    if cause.remedy:
        lines.append(f"    Remedy: {cause.remedy}.")
    return lines


def _sentence(cause: Cause) -> str:
    parts = [cause.text if not cause.operation else f"{cause.named}: {cause.text}"]
    rank = len(cause.examples)
    if cause.place[rank:]:
        parts.append(f"at {_index(cause.place[rank:])}")
    for example in cause.examples:
        parts.append(f"example {example}")
    if rank:
        parts.append(f"in {cause.bad_examples} of {cause.all_examples} examples")
    parts += [f"step {step} of {loop}" for loop, step in cause.steps]
    return ", ".join(parts)
