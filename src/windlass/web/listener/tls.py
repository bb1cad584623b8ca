"""TLS context of a server from certificate files: Python's defaults, TLS 1.2 and newer."""

from __future__ import annotations

import ssl
from pathlib import Path

from windlass.core.errors import BadSetting


class _Encrypted(Exception):
    pass


def tls_context(certificate: str | Path, key: str | Path | None = None) -> ssl.SSLContext:
    """Load a certificate. Its file holds the whole chain, and the key too if no key file is given."""
    for file in (certificate, key or certificate):
        _check_readable(Path(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except _Encrypted:
        raise BadSetting(f"The TLS key {key or certificate} is encrypted; use a key without a password.") from None
    except ssl.SSLError as error:
        raise BadSetting(_explain(error, certificate, key)) from error
    return context


def _check_readable(file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise BadSetting(f"The TLS file {file} cannot be read: {error.strerror}.") from error


def _refuse_password() -> str:
    """Raise, because OpenSSL would otherwise prompt on the terminal and wait."""
    raise _Encrypted


def _explain(error: ssl.SSLError, certificate: str | Path, key: str | Path | None) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"The TLS key {key or certificate} does not belong to the certificate {certificate}."
    where = f"{certificate} and {key}" if key else f"{certificate}"
    return f"No certificate with its key in PEM form was found in {where} ({error.reason or error})."
