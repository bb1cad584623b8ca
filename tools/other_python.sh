#!/bin/sh
# Run tests with the Python of another Debian release, in a folder of its own.
#
#   sh tools/other_python.sh trixie python3.13              the tests that the classifiers stand for
#   sh tools/other_python.sh forky python3.14 tests/core    others
#
# It needs root and Debian's package debootstrap. The release stays in .debian/ for the next run. The tests run on the last
# commit, in a copy.
set -eu

# With mounts of its own, which end with this process, so that none is left in the folder.
[ -n "${HAS_OWN_MOUNTS:-}" ] || HAS_OWN_MOUNTS=1 exec unshare --mount sh "$0" "$@"

suite=$1 python=$2
shift 2
[ $# -gt 0 ] || set -- tests/core tests/wire tests/processes tests/sdk tests/installation tests/contrib tests/web
root=$(cd "$(dirname "$0")/.." && pwd)
debian=$root/.debian/$suite
packages=ca-certificates,$python,$python-venv,redis-server,openssl,libjemalloc2,git,make,procps

if [ ! -e "$debian/.ready" ]; then
    # debootstrap has no script for releases that are newer than itself; they are made as sid is.
    script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || ln -s sid "$script"
    rm -rf "$debian"
    mkdir -p "$debian"
    debootstrap --variant=minbase --include="$packages" "$suite" "$debian" >"$debian.log" || { tail "$debian.log"; exit 1; }
    touch "$debian/.ready"
fi

mount -t proc proc "$debian/proc"
mount --bind /dev "$debian/dev"
mount -t tmpfs tmpfs "$debian/tmp"
# The network as it is set up here: names, certificates, and pip's settings.
cp -L /etc/resolv.conf /etc/hosts "$debian/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$debian/etc/ssl/certs/"
[ ! -e /etc/pip.conf ] || cp -L /etc/pip.conf "$debian/etc/"

copy=$debian/srv/windlass
[ -d "$copy" ] || git clone --quiet "$root" "$copy"
git -C "$copy" fetch --quiet "$root" HEAD
git -C "$copy" checkout --quiet --force FETCH_HEAD
chroot "$debian" make --no-print-directory -C /srv/windlass setup "PYTHON=$python"
chroot "$debian" sh -c 'cd /srv/windlass && .venv/bin/python -W error -m compileall -q src && .venv/bin/pytest "$@"' sh "$@"
