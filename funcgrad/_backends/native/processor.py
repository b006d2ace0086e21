"""The processor that code is made for, and code in memory.

The text of an LLVM module flows in, with the addresses of the symbols that it does not define.
Machine code flows out, which lives as long as its ``Code``.

>>> tools = Toolchain()
>>> made = tools.object_code("define i64 @five() { ret i64 5 }", level=0)
>>> compiled = tools.linked([made], {}, ["five"])
>>> import ctypes
>>> ctypes.CFUNCTYPE(ctypes.c_int64)(compiled.addresses["five"])()
5
"""

from __future__ import annotations

import atexit
import os
from _thread import start_new_thread
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from threading import Lock, RLock, get_ident, main_thread
from time import monotonic, sleep
from typing import Any, Final, TypeVar

import llvmlite

from funcgrad._backends.native.code_cache import digest, is_on, read_code, write_code
from funcgrad._backends.native.cpython import NativeError
from funcgrad._backends.native.object_files import UnknownFormatError, load
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.locks import cached_property, uninterrupted

T = TypeVar("T")

_LONGEST: Final = 1 << 18
"""Characters of a text from which on LLVM only emits it: optimizing would take a second, and so
much text is mostly of calls and of loops over large arrays, which gain less. The time to emit twice
as much grows faster than its size, but for level 0."""

QUICKLY: Final = 100_000
"""Characters of a text from which on its first code is emitted at level 0."""

_QUIET: Final = 0.01
"""Seconds for which nobody else has used LLVM when a thread in the background goes on."""

_LONGEST_WAIT: Final = 1.0
"""Seconds after which it goes on in any case."""

_MOST_WAITING: Final = 8
"""The most threads that work, or wait to work, in the background; other programs ask again."""

_LIBRARIES: Final = 32
"""Modules of one linker, which keeps some memory of each until all of them are gone."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor.

    Attributes
    ----------
    cpu : str
        Its name, as LLVM has it.
    features : str
        Its abilities, such as ``+avx2,-avx512f``.
    bits : int
        The width of its vectors.
    triple : str
        Its kind and the system, as LLVM has them, such as ``aarch64-unknown-linux-gnu``.
    """

    cpu: str
    features: str
    bits: int
    triple: str

    @property
    def is_arm(self) -> bool:
        """Whether it is a 64-bit Arm: they all fuse, and convert half precision."""
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def fuses(self) -> bool:
        """Whether it multiplies and adds with one rounding."""
        return self.is_arm or "+fma" in self.features.split(",")

    @property
    def halves(self) -> bool:
        """Whether it converts half precision."""
        return self.is_arm or "+f16c" in self.features.split(",")

    @property
    def scales(self) -> bool:
        """Whether it multiplies vectors by powers of two in one instruction."""
        return self.bits == 512


def llvm() -> Any:
    """LLVM, which takes 30 ms and 45 MB to load."""
    from llvmlite import binding

    binding.initialize_native_target()  # these do nothing from the second time on
    binding.initialize_native_asmprinter()
    return binding


def host() -> tuple[Processor, str]:
    """The processor that this runs on, and the version of LLVM: from disk, else LLVM tells."""
    name = _machine()
    stored = None if name is None else read_code(name)
    if stored is not None:
        cpu, features, width, triple, version = stored.decode().split("\n")
        return Processor(cpu, features, int(width), triple), version
    binding = llvm()
    flags, features = binding.get_host_cpu_features(), binding.get_host_cpu_features().flatten()
    if flags.get("avx512f") and flags.get("avx512dq") and flags.get("avx512bw"):
        bits = 512
    else:
        bits = 256 if flags.get("avx2") else 128
    cpu, triple = binding.get_host_cpu_name(), binding.get_process_triple()
    version = str(binding.llvm_version_info)
    if name is not None:
        write_code(name, "\n".join([cpu, features, str(bits), triple, version]).encode())
    return Processor(cpu, features, bits, triple), version


def _machine() -> str | None:
    """A name for this processor with this LLVM; None if the system does not tell."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            lines = file.read(1 << 12).partition(b"\n\n")[0].decode().splitlines()
        library = os.stat(f"{os.path.dirname(llvmlite.__file__)}/binding/libllvmlite.so")
    except OSError:
        return None
    pairs = {key.strip(): value for key, _, value in [line.partition(":") for line in lines]}
    about = [pairs.get(key) for key in ("vendor_id", "cpu family", "model", "stepping", "flags")]
    if None in about:
        return None
    about += llvmlite.__version__, str(library.st_size), str(library.st_mtime_ns)
    return digest(["host, 1", *map(str, about)])  # the version of the file's form


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Machine code in memory. Its functions can be called while this object is alive.

    Attributes
    ----------
    addresses : mapping
        From functions' names to where they begin.
    memory : object
        An object that frees the memory when it goes.
    """

    addresses: Mapping[str, int]
    memory: object


class _Allocation:
    """Memory that LLVM has allocated, freed when nothing refers to it any more."""

    __slots__ = ("_number", "_tools")

    def __init__(self, tools: Toolchain, number: int) -> None:
        self._tools, self._number = tools, number

    def __del__(self) -> None:
        self._tools.free(self._number)


class Abandoned(Exception):  # noqa: N818 - it ends a thread, and nobody is told
    """An exception that ends work in the background when Python ends."""


class Toolchain:
    """A compiler for one processor, and a linker.

    LLVM works in threads: no interrupt meets the lock of this object or llvmlite's lock there.
    One thread at a time may work in the background, piece by piece: all others go first, and forks
    and Python's end wait for one piece.

    Parameters
    ----------
    processor : Processor, optional
        The one that this runs on, unless told.
    """

    def __init__(self, processor: Processor | None = None) -> None:
        self._processor = processor
        self._machines: dict[int, Any] = {}
        self._linker: Any = None
        self._names = count()
        self._lock: Final = RLock()
        self._holders: dict[int, list[object]] = {}  # here, where no collector ends them
        self._unused: list[int] = []
        self._ends = False
        self._background = Lock()
        self._in_background = 0  # the thread
        self._forks: dict[object, Callable[[], object]] = {}
        self._others: list[object] = []  # who want the lock, or have it
        self._last = 0.0  # when one of them was done
        self._later: list[str] = []  # texts to compile for later processes

    def alone(self, work: Callable[[], T]) -> T:
        """Do some work while LLVM does no other for this object."""

        def locked() -> T:
            if get_ident() == self._in_background:
                return self._piece(work)
            self._others.append(None)
            try:
                with self._lock:
                    return work()
            finally:
                self._others.pop()
                self._last = monotonic()

        return uninterrupted(locked)

    def in_background(self, work: Callable[[], object], again: Callable[[], object]) -> None:
        """Do some work in this thread, while nobody else wants LLVM and until Python ends.

        Parameters
        ----------
        work : callable
        again : callable
            Called in a child that is forked before the work is done, and so lacks the thread.
        """
        claim = object()
        self._forks[claim] = again
        with self._background:
            self._in_background = get_ident()
            try:
                work()
                while self._later:
                    self.object_code(self._later.pop(), 1)
            except Abandoned:
                pass
            finally:
                self._in_background = 0
                del self._forks[claim]

    @property
    def has_much_to_do(self) -> bool:
        """Whether enough threads wait to work in the background."""
        return len(self._forks) >= _MOST_WAITING

    def _piece(self, work: Callable[[], T]) -> T:
        end = monotonic() + _LONGEST_WAIT
        sleep(1e-3)  # in which one who waits for the lock takes it
        while (self._others or monotonic() < self._last + _QUIET) and monotonic() < end:
            sleep(1e-3)
        with self._lock:
            if self._ends:
                raise Abandoned
            return work()

    def wait_before_forks(self) -> None:
        """Have the process fork only when LLVM does not work for this object.

        The child would wait for ever for locks that other threads of its parent hold.
        """
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._begin_in_child,
            )
        atexit.register(self.alone, self._end)

    def _begin_in_child(self) -> None:
        """Forget the threads of the parent; their work in the background is asked for again."""
        self._background, self._in_background, self._others = Lock(), 0, []
        forks, self._forks = self._forks, {}
        self._lock.release()
        for again in forks.values():
            again()

    def _end(self) -> None:
        """From now on begin nothing that would work while the process ends."""
        self._ends = True

    def free(self, number: int) -> None:
        """Free the memory of a module: soon, or when the thread is done for which LLVM works."""
        is_first = not self._unused
        self._unused.append(number)
        if self._ends or get_ident() != main_thread().ident:
            if self._lock.acquire(blocking=False):
                try:
                    self._free_unused()
                finally:
                    self._lock.release()
        elif is_first:
            with suppress(RuntimeError):  # the system has no more threads; the next work frees it
                start_new_thread(self.alone, (self._free_before_the_end,))

    def _free_before_the_end(self) -> None:
        if not self._ends:
            self._free_unused()

    def _free_unused(self) -> None:
        try:  # not a look at the length, since other threads add to it
            while True:
                self._holders.pop(self._unused.pop()).clear()
        except IndexError:  # a name that lives until the interpreter ends, as a module's do not
            return

    @cached_property
    def processor(self) -> Processor:
        """The processor that code is made for."""
        return self._processor or self._host[0]

    @cached_property
    def _host(self) -> tuple[Processor, str]:
        return self.alone(host)

    def _machine(self, level: int) -> Any:
        return (
            llvm()
            .Target.from_triple(self.processor.triple)
            .create_target_machine(
                cpu=self.processor.cpu,
                features=self.processor.features,
                opt=level,
                jit=True,
                codemodel="jitdefault",
            )
        )

    def object_code(self, text: str, level: int) -> bytes:
        """Compile the text of a module to an object file.

        Parameters
        ----------
        text : str
        level : int
            How much LLVM optimizes: 0 takes a fifth of the time of 2. Level 1 emits code with
            values in registers, without a change of the text before, in half of the time.

        Raises
        ------
        NativeError
            LLVM refuses the text.
        """
        made = self.known_code(text, level)
        if made is None:
            made = self.compiled(text, level)
            write_code(self.name(text, level), made)
        return made

    def quick_code(self, text: str) -> bytes:
        """The object file of a text that runs for short moments, at level 1 if that is on disk.

        Else it is of level 0, which saves 20 of 31 ms for the runtime and costs a call 0.06 to
        0.1 µs; and level 1 is put on disk, for later processes, after work in the background.
        """
        made = self.known_code(text, 1)
        if made is not None:
            return made
        if is_on():
            self._later.append(text)
        return self.object_code(text, 0)

    def known_code(self, text: str, level: int) -> bytes | None:
        """The object file of a text that some process has compiled; None if it is not on disk."""
        return read_code(self.name(text, level))

    def name(self, text: str, level: int) -> str:
        """The name of the file on disk for a text, or for a key that tells as much."""
        return digest([text, str(level), *self._versions])

    @cached_property
    def _versions(self) -> tuple[str, ...]:
        processor = self.processor
        versions = llvmlite.__version__, self._host[1], "inlined"
        return processor.cpu, processor.features, processor.triple, *versions

    def compiled(self, text: str, level: int) -> bytes:
        """Compile the text of a module to an object file, whatever is on disk."""
        return self.alone(lambda: self._compile(text, level))

    def _compile(self, text: str, level: int) -> bytes:
        self._free_unused()
        try:
            module = llvm().parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            raise NativeError(f"native code: LLVM refuses the module: {error}") from None
        if len(text) >= 2 * _LONGEST:
            level = 0
        if level not in self._machines:
            self._machines[level] = self._machine(level)
        if level == 2 and len(text) < _LONGEST:
            self._optimize(module, level)
        return self._machines[level].emit_object(module)

    def _optimize(self, module: object, level: int) -> None:
        """Optimize a module's text: functions into those that call them, memory into registers.

        Loops with short scalar bodies run in 0.7 to 0.9 times the time, mathematical functions
        over arrays in 0.95. Loops are neither unrolled nor turned into vectors, as nests are that.
        """
        binding = llvm()
        tuning = binding.create_pipeline_tuning_options(speed_level=level)
        tuning.loop_vectorization = tuning.slp_vectorization = False
        tuning.loop_unrolling = tuning.loop_interleaving = False
        builder = binding.create_pass_builder(self._machines[level], tuning)
        builder.getModulePassManager().run(module, builder)

    def linked(
        self, files: Sequence[bytes], symbols: Mapping[str, int], names: Sequence[str]
    ) -> Code:
        """Load object files.

        Parameters
        ----------
        files : sequence of bytes
        symbols : mapping
            The addresses of the symbols that they refer to and do not define.
        names : sequence of str
            The functions to find in them.

        Raises
        ------
        NativeError
            They refer to anything else: nothing has run then.
        """
        try:
            addresses, memory = load(files, symbols)
            return Code({name: addresses[name] for name in names}, memory)
        except UnknownFormatError:
            return self.alone(lambda: self._link(files, symbols, names))

    def _link(
        self, files: Sequence[bytes], symbols: Mapping[str, int], names: Sequence[str]
    ) -> Code:
        self._free_unused()
        binding, number = llvm(), next(self._names)
        if self._linker is None or number % _LIBRARIES == 0:
            # LLVM's older linker, llvmlite's default, ends the process on Arm where sections lie
            # far apart. This one takes 0.3 ms a program too, 0.6 rather than 0.9 ms for 80 KB of
            # code, and 10,000 programs that were linked and dropped leave no memory with either.
            self._linker = binding.create_lljit_compiler(
                self._machine(0), use_jit_link=True, suppress_errors=True
            )
        library = binding.JITLibraryBuilder()
        for file in files:
            library.add_object_img(file)
        for name, address in symbols.items():
            library.import_symbol(name, address)
        for name in names:
            library.export_symbol(name)
        try:
            tracker = library.link(self._linker, f"module{number}")
        except RuntimeError as error:
            raise NativeError(f"native code: it cannot be linked: {error}") from None
        addresses = {name: tracker[name] for name in names}
        self._holders[number] = [tracker, self._linker]
        return Code(addresses, _Allocation(self, number))
