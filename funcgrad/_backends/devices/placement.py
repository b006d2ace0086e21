"""``devices``, ``put`` and ``get``: which devices there are, and copies to and from them.

>>> import funcgrad as fg
>>> put([1.0, 2.0], "cpu")
[Tensor(1.0), Tensor(2.0)]
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import count
from typing import Final, Literal, TypeAlias, TypeVar

from funcgrad._backends.devices.device import Device
from funcgrad._backends.interface import DeviceBackend
from funcgrad._core import pytrees
from funcgrad.errors import DeviceError, MissingPackageError

T = TypeVar("T")
DeviceLike: TypeAlias = Device | DeviceBackend | str

_MEMBERS: Final = ("name", "supports", "prepare", "compile", "inspect", "put", "get", "lacks")


class _KnownDevices:
    """The devices that have been used, each with its programs.

    Attributes
    ----------
    host : Device
        The device of tensors that are not put elsewhere.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._known: dict[tuple[int, bool], Device] = {}
        self.host = Device("cpu")

    def device(self, backend: DeviceBackend, calls_host: bool) -> Device:
        """The device of a backend: the same at each call.

        Among values of one backend, the device that never calls the host interprets operations.
        """
        key = id(backend), calls_host  # the device keeps the backend, and so its identity
        if key not in self._known:
            level = -2 * next(self._numbers)
            devices = [
                Device(backend.name, backend, level + 1 - flag, flag) for flag in (True, False)
            ]
            for device in devices:
                self._known.setdefault((id(backend), device.calls_host), device)
        return self._known[key]

    def by_name(self, name: str) -> DeviceBackend | None:
        """The backend of a device that has been used."""
        return next((d.backend for d in list(self._known.values()) if d.name == name), None)


_KNOWN: Final = _KnownDevices()


def devices() -> tuple[Device, ...]:
    """List the devices of this machine, the host first.

    Returns
    -------
    tuple of Device
        Each has a ``name``, such as ``"cpu"``, ``"xla:cpu:0"`` or ``"xla:cuda:0"``, which ``put``
        takes as well. Devices other than the host need ``funcgrad[xla]``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.devices()[0]
    Device('cpu')
    """
    return _KNOWN.host, *[_KNOWN.device(backend, True) for backend in _backends()]


def _backends() -> tuple[DeviceBackend, ...]:
    if find_spec("jax") is None or find_spec("funcgrad._backends.xla") is None:
        return ()
    from funcgrad._backends.xla.xla_devices import xla_devices

    return xla_devices()


def device_of(device: DeviceLike, operation: str, calls_host: bool | None = None) -> Device:
    """Find a device by its name; a device, or a backend that is one, is taken as it is.

    By default operations that it lacks are computed on the host, unless values of the device that
    is passed refuse that.

    Raises
    ------
    DeviceError
        The device does not exist.
    MissingPackageError
        The device needs a package that is not installed.
    """
    if isinstance(device, Device):
        calls_host = device.calls_host if calls_host is None else calls_host
        return _KNOWN.host if device.backend is None else _KNOWN.device(device.backend, calls_host)
    calls_host = calls_host is not False
    if not isinstance(device, str):
        missing = [member for member in _MEMBERS if not hasattr(device, member)]
        if missing or isinstance(device, type):
            raise DeviceError(
                f"{operation}: {device!r} is not a device. Pass one of fg.devices(), its name, or a"
                f" backend with the members {', '.join(_MEMBERS)}."
            )
        return _KNOWN.device(device, calls_host)
    if device == _KNOWN.host.name:
        return _KNOWN.host
    backends = _backends() if device.partition(":")[0] == "xla" else ()
    if device == "xla" and backends:
        others = [backend for backend in backends if not backend.name.startswith("xla:cpu")]
        return _KNOWN.device((*others, *backends)[0], calls_host)
    named = [backend for backend in backends if backend.name == device]
    backend = named[0] if named else _KNOWN.by_name(device)
    if backend is not None:
        return _KNOWN.device(backend, calls_host)
    if device.startswith("xla") and not backends:
        raise MissingPackageError(
            f'{operation}: the device {device!r} needs jax: python -m pip install "funcgrad[xla]".'
        )
    names = ", ".join([repr(known.name) for known in (_KNOWN.host, *map(_of, backends))])
    raise DeviceError(f"{operation}: there is no device {device!r}. The devices are {names}.")


def pickled_device(name: str, calls_host: bool) -> Device:
    """The device of a tensor that is unpickled.

    Raises
    ------
    DeviceError, MissingPackageError
        The device does not exist here.
    """
    try:
        return device_of(name, "unpickling", calls_host)
    except (DeviceError, MissingPackageError) as error:
        raise type(error)(
            f"{error} A pickle goes back to the device of its tensors: pickle fg.get(tree), or"
            " write fg.io.save(path, tree) there, and here fg.io.load(path, device=...)."
        ) from None


def _of(backend: DeviceBackend) -> Device:
    return _KNOWN.device(backend, True)


def put(tree: T, device: DeviceLike, host: Literal["callback", "never"] = "callback") -> T:
    """Copy the arrays of a tree to a device. Operations on the copies run there.

    Parameters
    ----------
    tree : pytree
        Of arrays, numbers and tensors; a Python number becomes a tensor, as by ``fg.tensor``.
    device : Device, str or DeviceBackend
        One of ``fg.devices()``, or its name. ``"xla"`` is the first accelerator, or else
        ``"xla:cpu:0"``. ``"cpu"`` copies to the host, as ``get`` does. Or a backend of your own,
        see ``funcgrad._backends.interface``.
    host : str
        ``"callback"``: an operation that the device lacks is computed on the host, with one warning
        that names it. ``"never"``: such an operation raises an error, for these values and all
        that are computed from them.

    Returns
    -------
    pytree
        The tree with tensors on the device.

    Raises
    ------
    DeviceError
        The device does not exist, or ``host`` is none of the options.
    LeafError
        A leaf is not an array.
    TracerError
        A leaf is traced by a transformation.

    Notes
    -----
    The values of an operation have to be on one device. Python numbers, and arrays without axes,
    may be on the host. A jitted function takes the arrays that it closes over along, once.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.put({"w": [1.0, 2.0]}, "cpu")
    {'w': [Tensor(1.0), Tensor(2.0)]}
    """
    if not isinstance(host, str) or host not in ("callback", "never"):
        raise DeviceError(f'put: host has to be "callback" or "never", not {host!r}.')
    chosen = device_of(device, "put", host == "callback")
    return pytrees.map(chosen.place, tree)


def get(tree: T) -> T:
    """Copy the tensors of a tree to the host; tensors on the host stay as they are.

    Parameters
    ----------
    tree : pytree

    Returns
    -------
    pytree
        The tree with tensors on the host, which are read-only, as all tensors are.

    Raises
    ------
    LeafError
        A leaf is not an array.
    TracerError
        A leaf is traced by a transformation.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.get(fg.tensor([1.0, 2.0]))
    Tensor([1., 2.])
    """
    return pytrees.map(_KNOWN.host.place, tree)
