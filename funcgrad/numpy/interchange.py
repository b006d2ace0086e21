"""Import arrays of other libraries by DLPack, without conversion to Python numbers.

>>> import numpy as np
>>> from_dlpack(np.arange(3.0))
Tensor([0., 1., 2.])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from funcgrad._core.users_values import is_frozen
from funcgrad.errors import ArgumentError, DlpackError, LeafError
from funcgrad.numpy.options import checked_device, placed
from funcgrad.tensor.tensor import Tensor, tensor

if TYPE_CHECKING:
    from funcgrad._backends.devices.placement import DeviceLike


def from_dlpack(
    x: object, /, *, device: DeviceLike | None = None, copy: bool | None = None
) -> Tensor:
    """Make a tensor from another library's array.

    A tensor is returned unchanged, and a read-only NumPy array is shared. Any other array is
    copied, since DLPack does not tell whether its owner writes to it.

    Parameters
    ----------
    x : object
        An array with ``__dlpack__`` and ``__dlpack_device__``: in main memory, or, if there is a
        ``device``, in memory that the device can read.
    device : Device, str or DeviceBackend, optional
        One of ``fg.devices()``, or its name: where the array is copied to. By default a tensor
        stays where it is, and another array has to be in main memory.
    copy : bool, optional
        False makes a necessary copy an error.

    Returns
    -------
    Tensor

    Raises
    ------
    LeafError
        The object has no ``__dlpack__``.
    DlpackError
        A copy is needed and is not allowed, or the array is in memory that cannot be read.
    DtypeError
        Tensors cannot have its dtype.

    Examples
    --------
    >>> import funcgrad as fg
    >>> t = fg.tensor([1.0, 2.0])
    >>> from_dlpack(t) is t
    True
    """
    chosen = checked_device(device, "from_dlpack")
    if not any(copy is option for option in (None, True, False)):
        raise ArgumentError(f"from_dlpack: copy has to be True, False or None, not {copy!r}.")
    if isinstance(x, Tensor):
        return placed(x, chosen, "from_dlpack")
    if not hasattr(x, "__dlpack__"):
        raise LeafError(f"from_dlpack: {type(x).__name__} has no __dlpack__; use fnp.asarray.")
    if copy is False and not (isinstance(x, np.ndarray) and is_frozen(x)):
        raise DlpackError(
            "from_dlpack: copy=False, but the array may be written to, and a tensor is immutable."
            " Leave copy out."
        )
    array: Any = x
    if chosen is not None:
        from funcgrad._backends.devices.device import is_elsewhere

        if is_elsewhere(x):
            return chosen.imported(x, "from_dlpack")
    try:
        made = tensor(array if isinstance(x, np.ndarray) else np.from_dlpack(array))
    except (BufferError, RuntimeError) as error:
        raise DlpackError(f"from_dlpack: {error} (Only main memory can be read.)") from error
    return placed(made, chosen, "from_dlpack")
