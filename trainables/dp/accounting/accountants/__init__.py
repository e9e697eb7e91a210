"""The accountants that a config may name.

Each file is one accountant and has a kind. One of the kind "guarantee" has
`of_release(what, *, delta) -> float` (`math.inf` where no finite figure holds;
`CannotAnalyze` outside its theorem), which must not rise with the noise. A config may
name it, and `target_epsilon` and budgets may use it; it never lowers what `certify` of
the trusted base (`trainables.dp`) gives. The other kinds give in `NO_GUARANTEE` the
reason why their figure bounds no release; one of the kind "figure" has
`epsilon(mechanism, *, delta) -> float`.
"""

ENTRIES = {
    "gaussian": "guarantee",
    "paper_zcdp": "figure",
    "pld": "guarantee",
    "rdp": "guarantee",
    "selection": "choice",
}
