"""What is found out about programs before they are written down: lives, memory, kernels.

A program can print itself as source, so these analyses stand below it, and see it by what it has
(``ProgramParts``). The passes, which make programs of programs, stand above.
"""

__all__: list[str] = []
