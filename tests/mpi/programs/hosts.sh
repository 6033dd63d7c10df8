#!/bin/sh
# Runs an MPI program on two hosts, which are two network namespaces of this machine:
#
#     unshare --net sh hosts.sh MPIEXEC RANKS COMMAND ...
#
# MPICH's launcher asks "ssh" to start a process on the other host; here that is nsenter.
set -eu
mpiexec=$1 ranks=$2
shift 2
. "$(dirname "$0")/../../support/two_hosts.sh"

cat > "$folder/start" <<END
#!/bin/sh
if [ "\$1" = -x ]; then shift; fi
host=\$1
shift
if [ "\$host" = $there ]; then exec $there_run sh -c "\$*"; fi
exec sh -c "\$*"
END
chmod +x "$folder/start"
"$mpiexec" -launcher ssh -launcher-exec "$folder/start" -localhost $here \
    -hosts $here,$there -n "$ranks" "$@"
