"""Probes at two small epsilons and one last run whose learning rate they fit (Panda et al. 2024, "A
New Linear Scaling Rule for Private Adaptive Hyperparameter Optimization", arXiv 2212.04486).
"""

KIND = "linear_scaling"
