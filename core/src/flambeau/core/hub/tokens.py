"""Bearer tokens, each for one host and no other."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

from flambeau.core.errors import HubError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def bearer_token(url: str) -> str | None:
    """The token from `FLAMBEAU_TOKEN_FILE` for exactly this URL's host, or None.

    Keys of the file are `host` or, stronger, `host:port`. A token goes out over https alone; http will do where the
    host is this machine.

    Raises:
        HubError: the file is missing, readable by others, or not an object of strings.
    """
    chosen = os.environ.get("FLAMBEAU_TOKEN_FILE")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not chosen or not (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)):
        return None
    tokens = _read(Path(chosen).expanduser())
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return tokens.get(f"{host}:{port}", tokens.get(host))


def _read(path: Path) -> dict[str, str]:
    try:
        mode = path.stat().st_mode
        tokens = json.loads(path.read_bytes())
    except OSError as error:
        raise HubError(f"FLAMBEAU_TOKEN_FILE={path} cannot be read ({error.strerror}); correct or unset it.") from error
    except ValueError as error:
        raise HubError(f"{path} is not valid JSON ({error}); expected an object, host -> token.") from error
    if os.name != "nt" and mode & 0o077:
        raise HubError(
            f"{path} holds tokens and its mode {stat.S_IMODE(mode):04o} lets others read it; expected 0600. "
            f"Run: chmod 600 {path}"
        )
    if not isinstance(tokens, dict) or not all(isinstance(token, str) for token in tokens.values()):
        raise HubError(f"{path} does not hold what is expected: a JSON object, host -> token.")
    return {str(host).lower(): token for host, token in tokens.items()}
