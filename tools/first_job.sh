#!/bin/sh
# From nothing to the first finished job, timed: an empty environment, the installation, a program, a worker.
#
#   sh first_job.sh                 installs windlass-queue from the package index
#   WHEELS=dist sh first_job.sh     takes our own wheels from a folder, before they are released (`make first-job`)
#
# It needs Python 3.11 or newer with venv (PYTHON=… names another one) and writes only into a temporary folder.
set -eu

python=${PYTHON:-python3}
wheels=${WHEELS:+$(cd "$WHEELS" && pwd)}
folder=$(mktemp -d)
worker=
began=$(date +%s)

clean_up() {
    [ -z "$worker" ] || kill "$worker" 2>/dev/null || true
    [ -z "$worker" ] || wait "$worker" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean_up EXIT
say() { echo "$(($(date +%s) - began)) s: $*"; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is required. Set PYTHON=… to its path." >&2
    exit 2
}
"$python" -m venv "$folder/env"
say "The environment is there."

"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check ${wheels:+--find-links "$wheels"} windlass-queue
say "Windlass is installed ($(du -sk "$folder/env" | awk '{print int($1 / 1024)}') MB)."

cd "$folder"
cat >shop.py <<'PROGRAM'
from windlass import Backoff, Context, Windlass

app = Windlass()  # WINDLASS_URL, or a private engine that starts by itself


@app.task(retry=Backoff(tries=5, base="2s", cap="10m"), timeout="30s")
async def send_mail(ctx: Context, order: int) -> str:
    ctx.progress(1, 2, "written")
    return f"mail about order {order} sent in attempt {ctx.attempt}"


if __name__ == "__main__":
    job = send_mail.enqueue(7)  # checked against the signature before anything is enqueued
    print(job.result(timeout=30))  # pushed, not polled; raises JobFailed with the remote error
PROGRAM

export WINDLASS_DATA_DIR="$folder/data"
"$folder/env/bin/windlass" worker shop:app >worker.log 2>&1 &
worker=$!
"$folder/env/bin/python" shop.py || {
    cat worker.log >&2
    exit 1
}
say "The first job has finished."
