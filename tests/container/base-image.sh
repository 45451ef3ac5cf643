#!/usr/bin/env bash
# Makes a base image from a Debian mirror, for machines that reach no container registry:
# Debian 12 with its Python 3.11, which stands in for python:3.11-slim-bookworm and for nvidia/cuda.
#
#   base-image.sh TAG     makes TAG, or does nothing where it is already there and still right
#
# Needs root, mmdebstrap and a running Docker engine (engine-up.sh). The machine's additional CA
# certificates (a proxy's, say) go in too, or nothing could be downloaded from inside a build.
set -euo pipefail

TAG=$1
PACKAGES=python3,python3-venv,ca-certificates
CERTIFICATES=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
LABEL=chat-server.base.recipe

recipe=$({ cat "$0"; cat "$CERTIFICATES"; } | sha256sum | cut -c1-16)
made=$(docker image inspect -f "{{index .Config.Labels \"$LABEL\"}}" "$TAG" 2>/dev/null || true)
[ "$made" != "$recipe" ] || exit 0
command -v mmdebstrap >/dev/null || { echo "base-image: mmdebstrap is missing (apt-get install mmdebstrap)" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/certificates"
# One file for each certificate that this machine trusts and Debian's own package does not have.
python3 - "$CERTIFICATES" "$scratch/certificates" <<'PYTHON'
import pathlib
import re
import sys

BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)


def certificates(file: pathlib.Path) -> set[str]:
    text = file.read_text(encoding="utf-8", errors="replace")
    return {block.replace("\r", "") for block in BLOCK.findall(text)}


debian = set()
for file in pathlib.Path("/usr/share/ca-certificates").rglob("*.crt"):
    debian |= certificates(file)
own = certificates(pathlib.Path(sys.argv[1])) - debian
for number, block in enumerate(sorted(own)):
    pathlib.Path(sys.argv[2], f"machine-{number}.crt").write_text(block + "\n")
PYTHON

# Hooks run with mmdebstrap's root folder as $1. No mirror is named: its default has the security suite.
# shellcheck disable=SC2016
mmdebstrap --quiet --mode=root --format=tar --variant=minbase --include="$PACKAGES" \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt=force-unsafe-io --aptopt='Acquire::Retries "3"' \
  --customize-hook="cp -r '$scratch/certificates/.' \"\$1/usr/local/share/ca-certificates/\"" \
  --customize-hook='chroot "$1" update-ca-certificates >/dev/null' \
  --customize-hook='echo "Dir::Cache::pkgcache \"\"; Dir::Cache::srcpkgcache \"\";" >"$1/etc/apt/apt.conf.d/docker-clean"' \
  --customize-hook='rm -f "$1"/var/cache/apt/*.bin "$1/etc/resolv.conf" "$1/etc/hostname"' \
  bookworm "$scratch/root.tar" 2>"$scratch/log" || { tail -n 20 "$scratch/log" >&2; exit 1; }

bundle=/etc/ssl/certs/ca-certificates.crt
docker import \
  -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8' \
  -c "ENV SSL_CERT_FILE=$bundle REQUESTS_CA_BUNDLE=$bundle PIP_CERT=$bundle" \
  -c "LABEL $LABEL=$recipe" \
  "$scratch/root.tar" "$TAG" >/dev/null
echo "base-image: made $TAG" >&2
