"""Tensordicts that show a part of another one."""
