"""Functions of pytrees: flatten, map, partition and change nested containers of arrays.

``fg.pytree`` explains pytrees, and turns a class into one. A leaf is named by its path, spelled as
in PyTorch, and patterns select leaves by their paths:

>>> import funcgrad as fg
>>> from funcgrad import tree
>>> params = {"layers": [{"w": fg.tensor([1.0, 2.0]), "b": 3.0}], "scale": 4.0}
>>> tree.select(params, "layers.*")
{'layers.0.b': 3.0, 'layers.0.w': Tensor([1., 2.])}
>>> chosen, others = tree.partition(params, "*.w")
>>> chosen
{'layers': [{'b': None, 'w': Tensor([1., 2.])}], 'scale': None}
>>> tree.combine(tree.map(lambda leaf: leaf * 2, chosen), others)
{'layers': [{'b': 3.0, 'w': Tensor([2., 4.])}], 'scale': 4.0}
>>> tree.at(params).layers[-1].w.set(0.0)
{'layers': [{'b': 3.0, 'w': 0.0}], 'scale': 4.0}

``ravel`` concatenates the elements of all leaves into one vector, for methods that need vectors.
"""

from typing import TYPE_CHECKING
from typing import Any as _Any

from funcgrad._core.pytrees import (
    all,
    flatten,
    leaves,
    leaves_with_path,
    map_with_path,
    reduce,
    structure,
    transpose,
    unflatten,
)
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.tree.leafwise import cast, count, lerp, norm, stack, unstack, vdot
from funcgrad.tree.pieces import check_shared, combine, partition, select
from funcgrad.tree.replacement import at
from funcgrad.tree.vectors import ravel

if TYPE_CHECKING:
    from collections.abc import Callable as _Callable
    from typing import Protocol as _Protocol
    from typing import TypeVar as _TypeVar
    from typing import overload as _overload

    from funcgrad._core.pytrees import IsLeaf as _IsLeaf
    from funcgrad.tensor.tensor import Tensor as _Tensor

    _Tree = _TypeVar("_Tree", bound=_Any)

    class _Map(_Protocol):  # a function from leaves to tensors keeps the type of the tree
        @_overload
        def __call__(
            self, f: _Callable[..., _Tensor], tree: _Tree, *others: _Any, is_leaf: _IsLeaf = None
        ) -> _Tree: ...
        @_overload
        def __call__(
            self, f: _Callable[..., _Any], tree: _Any, *others: _Any, is_leaf: _IsLeaf = None
        ) -> _Any: ...

    map: _Map
else:
    from funcgrad._core.pytrees import map


__all__ = [
    "all",
    "at",
    "cast",
    "check_shared",
    "combine",
    "count",
    "flatten",
    "leaves",
    "leaves_with_path",
    "lerp",
    "map",
    "map_with_path",
    "norm",
    "partition",
    "ravel",
    "reduce",
    "select",
    "stack",
    "structure",
    "transpose",
    "unflatten",
    "unstack",
    "vdot",
]


if not TYPE_CHECKING:  # type checkers see the imports above
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
