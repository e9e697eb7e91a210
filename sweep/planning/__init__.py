"""From a search space to trials with figures of cost and epsilon, without running
any.
"""
