"""Paths under which upstream keeps what serving used to need; what they name is the same."""
