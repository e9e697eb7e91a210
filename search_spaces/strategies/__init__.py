"""Strategies for choosing the points of a space; a file's name is the name in `search.strategy`.

KIND "listed"              every combination of the axes' values
KIND "drawn"               `shares(random, num_axes=)`: endless points of the unit cube
KIND "adaptive"            `sampler(seed=, startup=)`: Optuna's sampler that proposes the next
                           point, and `REPLAYS`, whether it must be called again for earlier ones
KIND "private_selection"   a secret number of independent draws
"""
