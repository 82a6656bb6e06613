#!/usr/bin/env bash
# Installs what parts of the benchmarks and tests need and the machine lacks. Everything else is built by cargo.
#
#   scripts/setup.sh [peers | group | spec]...
#
# peers (if nothing is named): redis-server and memcached, for comparisons
# group: etcd, for comparisons of groups
# spec: Java and Maven, for `cargo x spec`
#
# Where there is no apt, or no right to use it, this script says what is missing and does not fail: who runs
# comparisons skips them with a line that says so, and `cargo x spec` ends with the reason.
set -euo pipefail

missing=()
need() { # program package
  command -v "$1" >/dev/null || missing+=("$2")
}
for what in "${@:-peers}"; do
  case $what in
    peers)
      need redis-server redis-server
      need memcached memcached
      ;;
    group) need etcd etcd-server ;;
    spec)
      need java default-jre-headless
      need mvn maven
      ;;
    *)
      echo "setup: unknown: $what (peers, group, spec)" >&2
      exit 2
      ;;
  esac
done

if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: everything is here: ${*:-peers}"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get; missing: ${missing[*]}"
  exit 0
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    echo "setup: not root and no sudo without a password; missing: ${missing[*]}"
    exit 0
  fi
  as_root=(sudo -n)
fi

install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}
if ! install; then
  # The package lists may be old or absent.
  "${as_root[@]}" apt-get update && install || echo "setup: apt-get failed; missing: ${missing[*]}"
fi

# Debian starts what it installs. Only services that this run installed are stopped: the comparison starts its own.
for package in "${missing[@]}"; do
  "${as_root[@]}" service "${package/etcd-server/etcd}" stop >/dev/null 2>&1 || true
done
