"""Privacy spending: budgets, the privacy filter and the ledger."""
