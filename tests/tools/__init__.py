"""Tools of the developers: each is a module that ``python -m`` runs, and says how in its docstring.

``fuzz``, ``mutation``, ``refusals`` and ``digits`` search for mistakes, ``benchmarks`` measures,
``practice`` holds the programs that both use. ``processors`` and ``interpreters`` run the suite on
other machines; ``docs`` looks after the pages, ``one_way`` after the layers, ``release`` after the
distributions. ``proofs`` counts what is checked, and ``validated_sample`` runs a sample of the
tests while passes are tried on values.
"""
