#!/bin/sh
# Runs a program of dask's on two hosts, which are two network namespaces of this machine:
#
#     unshare --net sh two_hosts.sh PYTHON PROGRAM ARGUMENTS ...
#
# The program gets the address of this host, and the command that starts others there.
set -eu
. "$(dirname "$0")/../support/two_hosts.sh"
python=$1 program=$2
shift 2
"$python" "$program" "$here" "$there_run" "$@"
