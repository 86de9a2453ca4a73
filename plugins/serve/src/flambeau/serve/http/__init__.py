"""The server's HTTP: paths, bodies, errors, and who may ask."""
