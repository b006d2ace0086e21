"""The public names of NumPy that ``funcgrad.numpy`` lacks, each with the reason.

>>> reason_for("copyto")
'it writes into its argument, and tensors never change: fnp.where(mask, values, x)'
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_WRITES: Final = "it writes into its argument, and tensors never change: "

EXCLUDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "copyto": f"{_WRITES}fnp.where(mask, values, x)",
        "fill_diagonal": f"{_WRITES}x.at[fnp.diag_indices_from(x)].set(values)",
        "place": f"{_WRITES}fnp.where(mask, values, x)",
        "put": f"{_WRITES}x.at[indices].set(values)",
        "putmask": f"{_WRITES}fnp.where(mask, values, x)",
        "mgrid": "it is indexed instead of called: fnp.indices, fnp.meshgrid",
        "ogrid": "it is indexed instead of called: fnp.ix_, fnp.meshgrid(sparse=True)",
        **dict.fromkeys(
            "index_exp s_".split(), "it makes index expressions: use NumPy's, which tensors accept"
        ),
        **dict.fromkeys(
            "asmatrix bmat matrix poly1d recarray record".split(),
            "a class of mutable arrays; a tensor is immutable",
        ),
        **dict.fromkeys(
            """
            broadcast flatiter frombuffer isfortran may_share_memory memmap ndarray ndenumerate
            ndindex nditer nested_iters shares_memory
            """.split(),
            "it is about arrays in memory: np.asarray(t) is a view of a concrete tensor",
        ),
        **dict.fromkeys(
            """
            array2string array_repr array_str base_repr binary_repr format_float_positional
            format_float_scientific get_printoptions printoptions set_printoptions
            """.split(),
            "it is about text: NumPy's function takes concrete tensors",
        ),
        **dict.fromkeys(
            """
            fromfile fromregex fromstring genfromtxt load loadtxt save savetxt savez
            savez_compressed
            """.split(),
            "it is about files: NumPy's functions read arrays, and write concrete tensors",
        ),
        "fromiter": "an iterator has no length and no dtype: fnp.array(list(it))",
        **dict.fromkeys(
            """
            busday_count busday_offset busdaycalendar datetime64 datetime_as_string datetime_data
            is_busday isnat timedelta64
            """.split(),
            "tensors hold no dates",
        ),
        **dict.fromkeys(
            """
            bytes_ character clongdouble complex256 flexible float128 longdouble object_ str_ void
            """.split(),
            "tensors are not of that dtype",
        ),
        **dict.fromkeys(
            "errstate getbufsize geterr geterrcall setbufsize seterr seterrcall".split(),
            "it is about NumPy's own state",
        ),
        **dict.fromkeys(
            "get_include info show_config show_runtime test".split(), "it is about NumPy itself"
        ),
        **dict.fromkeys(
            "mintypecode typename".split(), "it is about letters for dtypes: use NumPy's function"
        ),
        **dict.fromkeys(
            "packbits unpackbits".split(),
            "bits have no derivative: NumPy's function packs the bits of concrete tensors",
        ),
        "require": "it is about memory and flags, which cannot be chosen for tensors",
        "frompyfunc": "it makes arrays of objects: fnp.vectorize",
        "ufunc": "functions here are functions, without methods; np.add.accumulate(t) works",
    }
)
"""The reason by name, and what to write instead where there is a replacement."""


def reason_for(name: str) -> str:
    """Why a name of NumPy is missing here; empty if it is not missing, or not NumPy's."""
    return EXCLUDED.get(name, "")
