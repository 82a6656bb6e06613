#!/usr/bin/env bash
# Installs what the comparison benchmarks and tests need and the machine lacks: the real Redis and memcached.
# Everything else is built by cargo. Where there is no apt, or no right to use it, the comparisons are skipped
# by whoever runs them, with a line that says so; this script never fails for that.
set -euo pipefail

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v memcached >/dev/null || missing+=(memcached)

if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: redis-server and memcached are here"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get; without ${missing[*]} comparisons are skipped"
  exit 0
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    echo "setup: not root and no sudo without a password; without ${missing[*]} comparisons are skipped"
    exit 0
  fi
  as_root=(sudo -n)
fi

install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}
if ! install; then
  # The package lists may be old or absent.
  "${as_root[@]}" apt-get update && install || echo "setup: apt-get failed; without ${missing[*]} comparisons are skipped"
fi

# Debian starts what it installs. Only services that this run installed are stopped: the comparison starts its own.
for package in "${missing[@]}"; do
  "${as_root[@]}" service "$package" stop >/dev/null 2>&1 || true
done
