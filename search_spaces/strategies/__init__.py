"""Strategies for choosing the points of a space; a file's name is the name in
`search.strategy`.

kind "listed"              every combination of the axes' values
kind "drawn"               `shares(random, num_axes=)`: endless points of the unit cube
kind "adaptive"            `sampler(seed=, startup=)`: Optuna's sampler that proposes the next
                           point, and `REPLAYS`, whether it must be called again for
                           earlier ones
kind "private_selection"   a secret number of independent draws
"""

ENTRIES = {
    "gp": "adaptive",
    "grid": "listed",
    "nsga2": "adaptive",
    "private_selection": "private_selection",
    "quasi_random": "drawn",
    "random": "drawn",
    "tpe": "adaptive",
}
DEFAULT = "grid"
