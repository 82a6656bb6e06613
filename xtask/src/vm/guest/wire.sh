#!/bin/sh
# Sets up the wire: veth0, veth1, .. with 10.9.0.1, 10.9.0.2, .. and the Soft-RoCE devices rxe0, rxe1, ..
# on them. The far ends sw0, sw1, .. are ports of the bridge sw: each device is a host on one switch. $1:
# how many.
#
# All of them live in one network namespace, because Soft-RoCE of Linux 6.1 works in the first one only.
# So the kernel is told to believe frames that come from its own addresses, and to answer ARP only where
# the address is.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
ipv4=/proc/sys/net/ipv4/conf
echo 0 > $ipv4/all/rp_filter
echo 0 > $ipv4/default/rp_filter
echo 1 > $ipv4/default/accept_local
echo 1 > $ipv4/default/arp_ignore

# Everybody knows everybody's address from the start, as hosts do that talk over TCP on the same wire. Here
# TCP between the devices takes the loopback, so the first RDMA connection would wait for ARP, a second.

# One ip and one rdma for everything: to start a program takes an emulated machine a tenth of a second.
mac() {
  printf '02:00:0a:09:00:%02x' $(($1 + 1))
}
links() {
  echo "link set lo up"
  echo "link add sw type bridge"
  echo "link set sw up"
  i=0
  while [ "$i" -lt "$1" ]; do
    echo "link add veth$i address $(mac "$i") type veth peer name sw$i"
    echo "link set sw$i master sw up"
    echo "addr add 10.9.0.$((i + 1))/24 dev veth$i"
    echo "link set veth$i up"
    i=$((i + 1))
  done
  i=0
  while [ "$i" -lt "$1" ]; do
    j=0
    while [ "$j" -lt "$1" ]; do
      [ "$i" -eq "$j" ] ||
        echo "neigh replace 10.9.0.$((j + 1)) lladdr $(mac "$j") dev veth$i nud reachable"
      j=$((j + 1))
    done
    i=$((i + 1))
  done
}
devices() {
  i=0
  while [ "$i" -lt "$1" ]; do
    echo "link add rxe$i type rxe netdev veth$i"
    i=$((i + 1))
  done
}
# By way of a file: the status of the left side of a pipe is lost.
links "$1" > /run/vm-links
ip -b /run/vm-links
devices "$1" > /run/vm-devices
rdma -b /run/vm-devices
rm /run/vm-links /run/vm-devices
