#!/bin/sh
# Four machines on one: the network namespaces baton-b, baton-c and baton-d at a bridge, for four_nodes.toml.
# Wants root and iproute2.
#   four_nodes.sh up                 makes them
#   four_nodes.sh on NODE COMMAND    runs a command there, with a /run of its own, where its run directory and key are
#   four_nodes.sh pull NODE          pulls its cable; `plug NODE` puts it back
#   four_nodes.sh down               takes them away
set -eu
network=10.213.78

up() {
  ip link add baton0 type bridge
  ip addr add "$network.1/24" dev baton0
  ip link set baton0 up
  host=2
  for node in b c d; do
    ip netns add "baton-$node"
    ip link add "baton-$node" type veth peer name eth0 netns "baton-$node"
    ip link set "baton-$node" master baton0 up
    ip -n "baton-$node" addr add "$network.$host/24" dev eth0
    ip -n "baton-$node" link set eth0 up
    ip -n "baton-$node" link set lo up
    host=$((host + 1))
  done
}

down() {
  for node in b c d; do
    ip link del "baton-$node" || true # at once: a namespace goes when its last connection does
    ip netns del "baton-$node" || true
  done
  ip link del baton0 || true
}

on() {
  node=$1
  shift
  home="${TMPDIR:-/tmp}/baton-$node"
  mkdir -p -m 700 "$home"
  built=$(cd "$(dirname "$0")/.." && pwd)/build/release/cluster
  # shellcheck disable=SC2016 # it is the inner shell that expands them
  exec ip netns exec "baton-$node" unshare --mount sh -c 'mount --bind "$0" /run && exec "$@"' "$home" \
    env XDG_RUNTIME_DIR=/run XDG_CONFIG_HOME=/run/config PATH="$PATH:$built" "$@"
}

case "${1:-}" in
up) up ;;
down) down ;;
pull) ip link set "baton-$2" down ;;
plug) ip link set "baton-$2" up ;;
on) shift && on "$@" ;;
*) sed -n '2,7s/^# //p' "$0" >&2 && exit 2 ;;
esac
