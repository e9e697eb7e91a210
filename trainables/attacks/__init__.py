"""Membership inference attacks and audits. Each file is one attack."""
