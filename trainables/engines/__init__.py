"""How a step is taken: plain SGD, eDP-SGD (Dupuy et al. 2021), per-example DP-SGD."""
