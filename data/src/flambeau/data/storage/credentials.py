"""Who we are to S3: the environment first, then the shared files of the AWS tools, then what the machine is given.

The engine knows the environment, web identities, containers and instances; this module adds the files.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flambeau.core.environment import flag
from flambeau.data.storage.errors import StorageAccessError
from flambeau.data.storage.locations import StoreSpec

# A profile with one of these has to be exchanged for keys, which boto3 does.
_EXCHANGED = ("role_arn", "sso_session", "sso_start_url", "credential_process", "login_session")


def s3_settings(spec: StoreSpec) -> dict[str, Any]:
    """Arguments of obstore's `S3Store` for one bucket: region, endpoint, and credentials from the shared files.

    Raises:
        StorageAccessError: the chosen profile needs boto3, which is not installed, or does not exist.
    """
    profile = _profile()
    settings: dict[str, Any] = {"region": spec.region or _region(profile)}
    if endpoint := spec.endpoint_url or _endpoint(profile):
        settings |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    anonymous = flag("AWS_SKIP_SIGNATURE") if spec.anonymous is None else spec.anonymous
    return settings | ({"skip_signature": True} if anonymous else _identity(profile))


def _identity(profile: Mapping[str, str]) -> dict[str, Any]:
    # An explicit profile goes before keys in the environment, as the AWS tools have it.
    if os.environ.get("AWS_ACCESS_KEY_ID") and not os.environ.get("AWS_PROFILE"):
        return {}
    if profile.get("aws_access_key_id"):
        names = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key",
                 "aws_session_token": "session_token"}  # fmt: skip
        return {ours: profile[theirs] for theirs, ours in names.items() if profile.get(theirs)}
    if any(name in profile for name in _EXCHANGED):
        return {"credential_provider": _exchanged()}
    return {}


def _exchanged() -> Any:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise StorageAccessError(
            f"The AWS profile {_profile_name()!r} gets its keys from a role, a sign-on or a program, and reading those "
            "needs boto3, which is not installed. Run: pip install boto3"
        ) from error
    return Boto3CredentialProvider(boto3.Session(profile_name=os.environ.get("AWS_PROFILE")))


def _profile_name() -> str:
    return os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"


def _profile() -> dict[str, str]:
    """The chosen profile's settings, credentials file over configuration file."""
    name = _profile_name()
    config = _read(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config")
    credentials = _read(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")
    section = name if name == "default" else f"profile {name}"
    found = [file[part] for file, part in ((config, section), (credentials, name)) if file.has_section(part)]
    if not found and os.environ.get("AWS_PROFILE"):
        raise StorageAccessError(
            f"AWS_PROFILE is {name!r}, but neither ~/.aws/config nor ~/.aws/credentials has such a profile; "
            "correct the variable or add the profile."
        )
    return {key: value for part in found for key, value in part.items()}


def _read(path: str) -> configparser.ConfigParser:
    # No interpolation: a secret key may hold a percent sign. No default section: a profile may be called DEFAULT.
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    parser.read(Path(path).expanduser(), encoding="utf-8")
    return parser


def _region(profile: Mapping[str, str]) -> str:
    environment = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return environment or profile.get("region") or "us-east-1"


def _endpoint(profile: Mapping[str, str]) -> str:
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    from_environment = next((os.environ[name] for name in names if os.environ.get(name)), "")
    return from_environment or profile.get("endpoint_url", "")
