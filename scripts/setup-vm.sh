#!/usr/bin/env bash
# Installs what `cargo x vm` needs and the machine lacks: QEMU, a static busybox for the guest's start,
# the tools that sort the guest's kernel modules and set up its network, and the user's half of RDMA,
# which the guest shares. The kernel itself is fetched by `cargo x vm`, for which apt must know of it: its
# lists are brought up to date if not. Unlike setup.sh it fails when it cannot do that: who calls it wants
# the VM.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

missing=()
need() { # program package
  command -v "$1" >/dev/null || missing+=("$2")
}
need qemu-system-x86_64 qemu-system-x86
need modprobe kmod
need rdma iproute2
need setpriv util-linux
need timeout coreutils
need xz xz-utils
# Debian's plain busybox needs shared libraries, which there are none of before the guest has its root.
status=$(dpkg-query -W -f '${Status}' busybox-static 2>/dev/null || true)
if ! command -v busybox >/dev/null || [ "$status" != "install ok installed" ]; then
  missing+=(busybox-static)
fi
compgen -G '/usr/lib/*/libibverbs.so.1' >/dev/null || missing+=(libibverbs1)
compgen -G '/usr/lib/*/libibverbs/librxe-*' >/dev/null || missing+=(ibverbs-providers)

if ! command -v apt-get >/dev/null; then
  echo "setup-vm: no apt-get: the VM needs Debian or its kin, for their kernel" >&2
  exit 1
fi
as_root=()
become_root() {
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
      echo "setup-vm: not root and no sudo without a password; as root: $*" >&2
      exit 1
    fi
    as_root=(sudo -n)
  fi
}

known() { apt-cache depends linux-image-amd64 2>/dev/null | grep -q 'Depends: linux-image-'; }
if ! known; then
  become_root apt-get update
  "${as_root[@]}" apt-get update
  if ! known; then
    echo "setup-vm: apt knows no package linux-image-amd64, whose kernel the VM runs" >&2
    exit 1
  fi
fi
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup-vm: everything is here"
  exit 0
fi
become_root apt-get install "${missing[@]}"
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}
# The lists may be old: they name versions that the mirror has replaced.
install || { "${as_root[@]}" apt-get update && install; }
