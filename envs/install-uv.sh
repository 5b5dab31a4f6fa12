#!/bin/bash
# Install uv, through pip, into the directory given: envs/install-uv.sh ~/.cache/meshperf/uv
set -euo pipefail
directory=$1
version=0.13.8

python=
for candidate in python3 python3.13 python3.12 python3.11 python; do
  if $candidate -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || { echo "meshperf: there is no python3 on the PATH: install Python 3.11 or newer" >&2; exit 2; }

echo "Installing uv $version into $directory"
rm -rf "$directory"
pip_options=(--quiet --disable-pip-version-check)
if $python -m venv "$directory" >/dev/null 2>&1; then
  "$directory/bin/python" -m pip install "${pip_options[@]}" "uv==$version"
else # Debian splits venv from Python; pip can do without it
  $python -m pip install "${pip_options[@]}" --target "$directory" "uv==$version"
fi
test -x "$directory/bin/uv"
