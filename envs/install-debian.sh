#!/bin/bash
# Install what a purpose needs from Debian: envs/install-debian.sh cluster|tests
#
# This is the one list of Debian packages. Each is written package:program; a program that is there, however it got
# there, needs no package. Only root installs; anyone else is told the command. It never fails for lack of rights: the
# cluster may be another one, and the report needs none of this.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

cluster="containerd:containerd runc:runc containernetworking-plugins:/usr/lib/cni/bridge iptables:iptables
  conntrack:conntrack socat:socat ethtool:ethtool debootstrap:debootstrap iproute2:ip"
tests="chromium:chromium poppler-utils:pdftotext"

case ${1-} in
  cluster) wanted=$cluster purpose="the embedded cluster" ;;
  tests) wanted=$tests purpose="the tests of the report" ;;
  *) echo "usage: $0 cluster|tests" >&2; exit 2 ;;
esac

missing=()
for entry in $wanted; do
  command -v "${entry#*:}" >/dev/null || missing+=("${entry%%:*}")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$1" = cluster ]; then
  # A named context or a Docker engine makes the embedded cluster unnecessary, and Debian's containerd would take the
  # place of the one that Docker brought.
  [ -z "${MESHPERF_CONTEXT-}" ] || exit 0
  if command -v docker >/dev/null && timeout 10 docker version >/dev/null 2>&1; then exit 0; fi
fi

install="apt-get install --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  echo "meshperf: $purpose needs ${missing[*]}, as your system names them (make doctor says more)" >&2
elif [ "$(id -u)" != 0 ]; then
  echo "meshperf: $purpose needs ${missing[*]}: sudo $install" >&2
else
  echo "Installing for $purpose: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q=2 || echo "meshperf: apt-get update failed; trying with the lists that are there" >&2
  apt-get install -q=2 -y --no-install-recommends "${missing[@]}"
fi
