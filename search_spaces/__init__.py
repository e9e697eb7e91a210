"""Search spaces: YAML files that define trials, and their reader.

Users copy and edit a space; each value in a shipped one names its table or section of
the paper.

    space.py        the format; reading a file, a shipped name or a bare config
    parts.py        the parts of a space: axes, variants, constraints, budget, resources
    expansion.py    from a space to its points: grid, random, quasi-random, repeats over seeds
    constraints.py  small expressions over dotted names, parsed and never executed
    *.yaml          the spaces
"""
