"""Dataclasses whose fields are the entries of a tensordict."""
