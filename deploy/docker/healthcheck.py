#!/usr/bin/env python3
"""Health check of a server's container: exit code 0 while the server process answers `/healthz`.

It asks the address that the variables of the container name. `/healthz` does not depend on the engine, so an
orchestrator does not restart a server that only waits for its engine.
"""

import os
import ssl
import sys
import urllib.request

TIMEOUT_S = 4.0  # below the time-out of HEALTHCHECK, so that the reason is printed


def address() -> str:
    has_api = "api" in os.environ.get("WINDLASS_ROLES", "api").split(",")
    port = os.environ.get("WINDLASS_PORT", "8080") if has_api else os.environ.get("WINDLASS_HEALTH_PORT", "off")
    if port == "off":
        sys.exit("A server without the role api needs WINDLASS_HEALTH_PORT for its health check.")
    host = os.environ.get("WINDLASS_HOST", "127.0.0.1")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (the name of all addresses)
    scheme = "https" if os.environ.get("WINDLASS_TLS_CERTIFICATE") else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/healthz"


def main() -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # its own server, by the address of loopback
    try:
        with urllib.request.urlopen(address(), timeout=TIMEOUT_S, context=context):  # noqa: S310 (http or https)
            pass
    except (OSError, ValueError) as error:
        sys.exit(f"{address()}: {error}")


if __name__ == "__main__":
    main()
