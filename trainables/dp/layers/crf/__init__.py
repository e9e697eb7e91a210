"""A linear-chain CRF over packed rows: its layer, posteriors and best paths."""
