"""Tools of the developers: each is a module that ``python -m`` runs, and says how in its docstring.

``fuzz``, ``mutation``, ``refusals`` and ``digits`` search for mistakes, ``benchmarks`` measures,
``practice`` holds the programs that both use. ``processors`` and ``interpreters`` run the suite on
other machines; ``docs`` looks after the pages, ``one_way`` after the layers, ``release`` after the
distributions.
"""
