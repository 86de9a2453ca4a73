"""Handlers that archives name, and the base class of their own."""
