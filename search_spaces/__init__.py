"""Which trials: the reader of search spaces, and the spaces themselves as YAML files.

A space is a file that a person copies and edits; each value in a shipped one names the table or
section of the paper that it comes from.

    space.py        the format; reading a file, a shipped name or a bare config
    parts.py        what a space is made of: axes, variants, constraints, budget, resources
    expansion.py    from a space to its points: grid, random, quasi-random, repeats over seeds
    constraints.py  small expressions over dotted names, parsed and never run as code
    *.yaml          the spaces
"""
