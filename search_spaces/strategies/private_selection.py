"""A secret, random number of independent draws of which the best alone is released (Papernot &
Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy").
"""

KIND = "private_selection"
