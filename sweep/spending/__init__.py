"""What may be spent and what has been spent: budgets, the privacy filter and the ledger."""
