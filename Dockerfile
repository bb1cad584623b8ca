# Images of Windlass, built from this directory.
#
#   docker build --target server --tag windlass-server .     the server, with an embedded engine
#   docker build --target worker --tag windlass-worker .     base of your workers: FROM windlass-worker, then add your code
#
# docs/deploying.md explains both.

ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim AS build-worker
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
# An environment of its own: the final images copy one directory.
RUN python -m venv /opt/windlass \
 && /opt/windlass/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt .

FROM build-worker AS build-server
RUN /opt/windlass/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt '.[server,embedded]' \
 && /opt/windlass/bin/pip uninstall --yes --disable-pip-version-check pip

FROM python:${PYTHON_VERSION}-slim AS base
# Numeric ids, so that Kubernetes can see that the user is not root.
RUN groupadd --gid 10001 windlass \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/windlass --no-create-home --shell /usr/sbin/nologin windlass \
 && install --directory --owner=10001 --group=10001 --mode=0750 /var/lib/windlass \
 && install --directory --owner=10001 --group=10001 --mode=0755 /app
# Packages are compiled at build time, and the root file system may be read-only.
ENV PATH=/opt/windlass/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    WINDLASS_DATA_DIR=/var/lib/windlass/data \
    WINDLASS_LOG_FORMAT=json
# As a list: a shell in between would keep SIGTERM to itself.
ENTRYPOINT ["windlass"]

FROM base AS worker
COPY --from=build-worker /opt/windlass /opt/windlass
WORKDIR /app
USER 10001:10001
# A worker opens no port. It registers in the engine, and its leases expire when it hangs, so its health is not checked here.
HEALTHCHECK NONE
CMD ["worker", "--help"]

FROM base AS server
COPY --from=build-server /opt/windlass /opt/windlass
COPY --chmod=0755 deploy/docker/healthcheck.py /usr/local/bin/windlass-healthcheck
# All addresses of the container. The server refuses to start there without a token.
ENV WINDLASS_HOST=0.0.0.0
WORKDIR /var/lib/windlass
USER 10001:10001
VOLUME /var/lib/windlass
EXPOSE 8080 8888
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["windlass-healthcheck"]
CMD ["serve"]
