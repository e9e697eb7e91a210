"""The tables of Dupuy et al. 2021, run again: `sweep reproduce`.

`description` reads what to run from `search_spaces/reproduction`, `stages` makes ordinary sweeps of
it, `run` runs those that have not ended, `collect` reads their results, `statistics` compares
them, `table1` lays them out as the paper does.
"""
