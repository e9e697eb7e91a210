"""A linear-chain CRF over packed rows: its layer and its posteriors."""
