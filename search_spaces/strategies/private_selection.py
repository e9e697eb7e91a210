"""A secret, random number of independent draws of which only the best is released
(Papernot & Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy").
"""
