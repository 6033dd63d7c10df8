"""``storage_options``: which are ours, which are secret, and their names in obstore.

Names are those of fsspec (s3fs, gcsfs, adlfs, its ``http``), as pandas and xarray pass them on, or
those of obstore.
"""

from __future__ import annotations

import base64
import json
import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from extarray.common.arguments import as_int, parse_bytes
from extarray.common.errors import ArgumentError, ArgumentTypeError

__all__ = ["Policy", "Untranslatable", "for_obstore", "harmless", "redacted", "split_policy"]


class Untranslatable(Exception):  # noqa: N818 -- a reason to use another library
    """An option that obstore does not have; its argument is the option's name."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules for requests.

    Attributes
    ----------
    coalesce : int
        Most bytes of a gap between two ranges that one request reads.  512 KiB take 20 ms at
        200 Mbit/s, as long as a round trip.
    concurrency : int
        Most requests at the same time.
    retries : int
        Most attempts after the first.
    timeout : float
        Seconds in which the next piece of an answer (128 KiB, or all) has to come.
    """

    coalesce: int = 512 << 10
    concurrency: int = 16
    retries: int = 5
    timeout: float = 30.0


def split_policy(options: Mapping[str, Any]) -> tuple[Policy, dict[str, Any]]:
    """Take our own options out of ``storage_options``, and return the others."""
    if not isinstance(options, Mapping):
        raise ArgumentTypeError(
            f"storage_options must be a mapping of names to values, not a {type(options).__name__}"
        )
    rest = dict(options)
    own: dict[str, Any] = {}
    if "coalesce" in rest:
        own["coalesce"] = parse_bytes(rest.pop("coalesce"))
    for name, least in (("concurrency", 1), ("retries", 0)):
        if name in rest:
            own[name] = as_int(rest.pop(name), name)
            if own[name] < least:
                raise ArgumentError(f"{name} must be at least {least}, not {own[name]}")
    if "timeout" in rest:
        value = rest.pop("timeout")
        if isinstance(value, timedelta):
            value = value.total_seconds()
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ArgumentError("timeout must be a number of seconds above 0")
        own["timeout"] = float(value)
    return Policy(**own), rest


# -- secrets -------------------------------------------------------------------------------------

#: Options that hold nothing secret.  All others may, so a list of secret ones would not do.
_HARMLESS = frozenset(
    {
        "account_name",
        "addressing_style",
        "allow_http",
        "allow_invalid_certificates",
        "anon",
        "asynchronous",
        "aws_default_region",
        "aws_endpoint",
        "aws_region",
        "azure_storage_account_name",
        "bucket",
        "connect_timeout",
        "container_name",
        "default_region",
        "endpoint",
        "endpoint_url",
        "google_bucket",
        "profile",
        "project",
        "region",
        "region_name",
        "request_payer",
        "requester_pays",
        "signature_version",
        "skip_signature",
        "use_azure_cli",
        "use_emulator",
        "use_ssl",
        "verify",
        "virtual_hosted_style_request",
    }
)
_NESTED = frozenset({"client_kwargs", "client_options", "config_kwargs", "s3"})


def harmless(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that hold nothing secret.

    Examples
    --------
    >>> harmless({"anon": False, "key": "AKIA", "client_kwargs": {"region_name": "eu-west-1"}})
    {'anon': False, 'client_kwargs': {'region_name': 'eu-west-1'}}
    """
    kept: dict[str, Any] = {}
    for name, value in options.items():
        if name in _NESTED and isinstance(value, Mapping):
            kept[name] = harmless(value)
        elif name in _HARMLESS and (value is None or isinstance(value, (bool, int, float))):
            kept[name] = value
        elif name in _HARMLESS and isinstance(value, str):
            parts = urllib.parse.urlsplit(value)
            if "@" not in parts.netloc and not parts.query:
                kept[name] = value
    return kept


def redacted(url: str) -> str:
    """Return a URL without user, password, query and fragment.

    Examples
    --------
    >>> redacted("https://user:password@host/scene.xap?signature=abc")
    'https://host/scene.xap'
    """
    url = re.split(r"[?#]", url, maxsplit=1)[0]
    return re.sub(r"://[^/]*@", "://", url)


# -- names in obstore ----------------------------------------------------------------------------

_S3 = {
    "key": "access_key_id",
    "username": "access_key_id",
    "secret": "secret_access_key",
    "password": "secret_access_key",
    "token": "session_token",
    "anon": "skip_signature",
    "endpoint_url": "endpoint",
    "region_name": "region",
    "requester_pays": "request_payer",
}
_AZURE = {
    "sas_token": "sas_key",
    "anon": "skip_signature",
}
_CONNECTION_STRING = {
    "accountname": "account_name",
    "accountkey": "account_key",
    "sharedaccesssignature": "sas_key",
    "blobendpoint": "endpoint",
}
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_HEADER = re.compile(r"[A-Z][A-Za-z0-9]*(-[A-Za-z0-9]+)*$")


def for_obstore(
    scheme: str, options: Mapping[str, Any], policy: Policy, userinfo: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the configuration of an obstore store, and the options of its client.

    Parameters
    ----------
    scheme : {"http", "https", "s3", "gs", "az"}
    options : Mapping
        Without those of `Policy`.
    policy : Policy
    userinfo : str
        ``user:password`` of a URL, for web servers.

    Raises
    ------
    Untranslatable
        obstore has no such option.
    """
    config: dict[str, Any] = {}
    client: dict[str, Any] = {
        # The whole of a request may take long, a piece of it may not.
        "timeout": timedelta(days=1),
        "read_timeout": timedelta(seconds=policy.timeout),
        "connect_timeout": timedelta(seconds=min(policy.timeout, 10.0)),
    }
    headers: dict[str, str] = {}
    for name, value in options.items():
        if name == "client_options":
            if not isinstance(value, Mapping):
                raise ArgumentTypeError("client_options must be a mapping")
            headers |= dict(value.get("default_headers", {}))
            client |= {key: item for key, item in value.items() if key != "default_headers"}
        elif name == "retry_config":
            raise ArgumentError("storage_options has no 'retry_config'; use 'retries' instead")
        elif scheme in {"http", "https"}:
            _for_http(name, value, headers)
        elif scheme == "s3":
            _for_s3(name, value, config, client)
        elif scheme == "gs":
            _for_google(name, value, config)
        else:
            _for_azure(name, value, config)
    if userinfo:
        pair = urllib.parse.unquote_to_bytes(userinfo if ":" in userinfo else f"{userinfo}:")
        headers.setdefault("Authorization", "Basic " + base64.b64encode(pair).decode())
    if headers:
        client["default_headers"] = headers
    endpoint = config.get("endpoint") or _endpoint_of_environment(scheme)
    if scheme == "http" or str(endpoint).startswith("http://"):
        client.setdefault("allow_http", True)
    return config, client


def _endpoint_of_environment(scheme: str) -> str:
    """Return the endpoint that obstore takes from the environment, or ""."""
    return next(filter(None, map(os.environ.get, _ENDPOINTS.get(scheme, ()))), "")


def _for_http(name: str, value: Any, headers: dict[str, str]) -> None:
    if name == "headers" and isinstance(value, Mapping):
        headers |= {str(key): str(item) for key, item in value.items()}
    elif name == "client_kwargs" and isinstance(value, Mapping) and set(value) <= {"headers"}:
        headers |= {str(key): str(item) for key, item in value.get("headers", {}).items()}
    elif _HEADER.match(name) and isinstance(value, str):  # as pandas has them
        headers[name] = value
    elif name in {"client_kwargs", "encoded", "get_client"}:
        raise Untranslatable(name)
    else:
        raise ArgumentError(
            f"storage_options has no {name!r} for web servers; headers go in 'headers'"
        )


def _for_s3(name: str, value: Any, config: dict[str, Any], client: dict[str, Any]) -> None:
    if name == "client_kwargs" and isinstance(value, Mapping):
        for key, item in value.items():
            if key == "verify" and isinstance(item, bool):
                client["allow_invalid_certificates"] = not item
            elif key in {"endpoint_url", "region_name"}:
                _for_s3(key, item, config, client)
            else:
                raise Untranslatable(f"client_kwargs[{key!r}]")
    elif name == "config_kwargs" and isinstance(value, Mapping):
        style = value.get("s3", {})
        if set(value) - {"s3"} or set(style) - {"addressing_style"}:
            raise Untranslatable(name)
        config["virtual_hosted_style_request"] = style.get("addressing_style") == "virtual"
    elif name == "use_ssl" and isinstance(value, bool):
        if not value:
            client["allow_http"] = True
    elif name in {"profile", "session", "default_cache_type", "default_block_size"}:
        raise Untranslatable(name)
    elif value is not None:
        config[_S3.get(name, name)] = value


def _for_google(name: str, value: Any, config: dict[str, Any]) -> None:
    if name == "token":
        if value == "anon":
            config["skip_signature"] = True
        elif isinstance(value, Mapping):
            config["service_account_key"] = json.dumps(dict(value))
        elif isinstance(value, str) and value.endswith(".json"):
            config["service_account"] = value
        elif value not in {None, "google_default"}:
            raise Untranslatable(name)
    elif name == "anon":
        config["skip_signature"] = value
    elif name == "endpoint_url":
        config["base_url"] = value
    elif name != "project":  # only lists of buckets need the project
        config[name] = value


def _for_azure(name: str, value: Any, config: dict[str, Any]) -> None:
    if name == "connection_string":
        for pair in str(value).split(";"):
            key, _, item = pair.partition("=")
            if key.lower() in _CONNECTION_STRING:
                config[_CONNECTION_STRING[key.lower()]] = item
    elif name in {"credential", "location_mode", "default_cache_type"}:
        raise Untranslatable(name)
    elif value is not None:
        config[_AZURE.get(name, name)] = value
