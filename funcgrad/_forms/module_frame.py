"""The lines that every written module has: checks of its arguments, and its self-test.

They are the text of a module, not code of this one.

>>> compile(STORED + CHECKS + SELF_TEST, "frame", "exec").co_name
'<module>'
"""

import builtins
from typing import Final

CHECKS: Final = '''
# ------------------------------------------------------------------------- arguments and results


def _flatten(like, value, path, leaves):
    """Put the leaves of a tree into a list, in the order of the numbers in another tree."""
    if type(like) is int:
        leaves[like] = value
    elif like is None:
        if value is not None:
            raise ValueError(f"{path}: expected None, got {value!r}")
    elif type(like) is dict:
        if not isinstance(value, dict) or set(value) != set(like):
            raise ValueError(f"{path}: expected a dict with the keys {list(like)}, got {value!r}")
        for key in like:
            _flatten(like[key], value[key], f"{path}[{key!r}]", leaves)
    elif hasattr(like, "_fields"):
        for name in like._fields:
            if not hasattr(value, name):
                raise ValueError(f"{path}: expected an object with a field {name}, got {value!r}")
            _flatten(getattr(like, name), getattr(value, name), f"{path}.{name}", leaves)
    else:
        kind = type(like).__name__
        if type(value) is not type(like) or len(value) != len(like):
            raise ValueError(f"{path}: expected a {kind} of {len(like)}, got {value!r}")
        for k, inner in enumerate(like):
            _flatten(inner, value[k], f"{path}[{k}]", leaves)


def _build(like, leaves):
    """The tree with each leaf's number replaced by the leaf."""
    if type(like) is int:
        return leaves[like]
    if like is None:
        return None
    if type(like) is dict:
        return {key: _build(inner, leaves) for key, inner in like.items()}
    parts = [_build(inner, leaves) for inner in like]
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def _leaf(value, name, shape, dtype):
    """A value as an array or number of the right shape and dtype."""
    if shape is None:  # a Python number
        kinds = {"bool": "b", "int": "iu", "float": "iuf", "complex": "iufc"}[dtype]
        array = np.asarray(value)
        if array.shape != () or array.dtype.kind not in kinds:
            raise TypeError(f"{name}: expected a Python {dtype}, got {value!r}")
        return {"bool": bool, "int": int, "float": float, "complex": complex}[dtype](array.item())
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
    expected = np.dtype(dtype)
    if type(value) in (bool, int, float, complex):
        order = "biufc"
        if order.index(array.dtype.kind) <= order.index(expected.kind.replace("u", "i")):
            return expected.type(value)
    if array.dtype != expected:
        raise TypeError(f"{name}: expected dtype {expected}, got {array.dtype}")
    return array if shape else array[()]


def _inputs(args, kwargs):
    """The arguments of a call as a flat list, checked."""
    leaves = [None] * len(INPUTS)
    _flatten(ARGUMENTS[0], args, "arguments", leaves)
    _flatten(ARGUMENTS[1], kwargs, "keywords", leaves)
    return [_leaf(value, *spec) for value, spec in zip(leaves, INPUTS)]


def _results(inputs):
    """The results for a flat list of arguments, as new arrays."""
    with np.errstate(all="ignore"):
        outs = COMPUTED(*inputs)
    return [np.array(out) if isinstance(out, np.ndarray) else out for out in outs]
'''

STORED: Final = '''
def _stored(text, dtype, shape, axes=None):
    """An array from its bytes as text; ``axes`` is the order of its axes in memory."""
    array = np.frombuffer(_b64decode(text), dtype)
    if axes is None:
        return array.reshape(shape)
    return array.reshape([shape[axis] for axis in axes]).transpose(np.argsort(axes))


def _record(name, fields):
    """A named tuple; its fields may begin with an underscore."""
    kind = _namedtuple(name, fields, rename=True)
    kind._fields = tuple(fields.split())
    for place, field in enumerate(kind._fields):
        setattr(kind, field, property(lambda self, place=place: self[place]))
    return kind
'''

SELF_TEST: Final = '''

def _fractions(position, shape, dtype):
    """Numbers between 0 and 1 for the self-test, exact in every dtype."""
    size = 1
    for length in shape or ():
        size *= length
    numbers = (37 * np.arange(size) + 11 * position + 7) % 101
    if shape is None:
        return {"bool": True, "int": 1, "float": 0.5, "complex": 0.5 + 0.25j}[dtype]
    kind = np.dtype(dtype).kind
    if kind in "biu":
        numbers = numbers % 2
    else:
        numbers = (numbers + 1) / 128
        numbers = numbers + 1j * numbers[::-1] if kind == "c" else numbers
    array = numbers.astype(dtype).reshape(shape)
    return array if shape else array[()]


def _same_bits(a, b):
    """Whether arrays are equal to the last bit, where one NaN is as good as another."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    nan = np.isnan(a) if a.dtype.kind in "fc" else np.zeros(a.shape, bool)
    other = np.isnan(b) if a.dtype.kind in "fc" else nan
    return bool((nan == other).all()) and a[~nan].tobytes() == b[~nan].tobytes()


def self_test():
    """Compute the stored example, print how its results compare, and return the exit status."""
    inputs = example()
    status = 0
    for out, name, (step, expected) in zip(_results(inputs), RESULT_NAMES, expected_results()):
        actual = np.asarray(out).reshape(-1)[::step]
        expected = np.asarray(expected).reshape(-1)
        if _same_bits(actual, expected):
            print(f"{name}: the same to the last bit")
            continue
        is_close = actual.shape == expected.shape and actual.dtype == expected.dtype
        if is_close:
            with np.errstate(all="ignore"):
                eps = np.finfo(actual.dtype).eps if actual.dtype.kind in "fc" else 0.0
                scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
                near = np.isclose(actual, expected, 2e6 * eps, 2e6 * eps * scale, equal_nan=True)
            is_close = bool(near.all())
        print(f"{name}: " + ("close, by another NumPy or processor" if is_close else "WRONG"))
        status = status if is_close else 1
    print("The self-test " + ("failed." if status else "passed."))
    return status


if __name__ == "__main__":
    raise SystemExit(self_test())
'''

NAMES: Final = frozenset(
    "ARGUMENTS COMPUTED INPUTS RESULT RESULT_NAMES constants example expected_results np self_test"
    " _b64decode _build _flatten _fractions _inputs _leaf _namedtuple _record _results _same_bits"
    " _stored".split()
    + dir(builtins)
)
"""The names of these lines, and of Python."""
