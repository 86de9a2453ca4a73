"""Tensordicts whose entries lie in a file or on a server."""
