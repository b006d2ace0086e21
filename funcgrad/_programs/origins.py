"""Find the user's line of an operation, also while a program is evaluated.

>>> import funcgrad as fg
>>> line_around(sys._getframe(), {}).startswith("<doctest")
True
"""

from __future__ import annotations

import sys
from types import FrameType

from funcgrad._base.users_line import arguments_of, is_users, line_of_frame
from funcgrad._programs.equation import bound


def operations_line() -> str:
    """The user's line of the operation that a transformation is interpreting, or empty.

    Inside a program, such as the program of a jitted function, it is the line of the equation.
    Lines of the calling transformation do not count.

    Examples
    --------
    >>> import funcgrad as fg
    >>> @fg.custom_jvp
    ... def twice(x):
    ...     return 2 * x
    >>> @twice.defjvp
    ... def rule(primals, tangents):
    ...     print(operations_line().startswith("<doctest"))
    ...     return twice(*primals), 2 * tangents[0]
    >>> fg.jvp(twice, (1.0,), (1.0,))
    True
    (Tensor(2.0), Tensor(2.0))
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_users(frame):
        frame = frame.f_back
    return line_around(frame, {})


def line_around(frame: FrameType | None, libraries: dict[str, bool]) -> str:
    """The user's line that a frame runs, or the line of the equation that is being evaluated.

    ``libraries`` remembers which files are so: staging asks about twenty frames an operation.
    """
    evaluates = bound.__code__
    while frame is not None:
        code = frame.f_code
        is_library = libraries.get(code.co_filename)
        if is_library is None:
            is_library = libraries[code.co_filename] = not is_users(frame)
        if not is_library:
            break
        if code is evaluates:
            source: str = arguments_of(frame)[0].source
            if source:
                return source
        frame = frame.f_back
    return line_of_frame(frame)
