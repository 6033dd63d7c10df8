#!/bin/sh
# Runs an MPI program on two hosts, which are two network namespaces of this machine:
#
#     unshare --net sh hosts.sh MPIEXEC RANKS COMMAND ...
#
# MPICH's launcher asks "ssh" to start a process on the other host; here that is nsenter.
set -eu
mpiexec=$1 ranks=$2
shift 2
here=10.213.0.1 there=10.213.0.2

unshare --net sleep 600 &
other=$!
folder=$(mktemp -d)
trap 'kill "$other"; rm -r "$folder"' EXIT
# The child has its own namespace when it has become `sleep`.
while [ "$(readlink "/proc/$other/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
there_run="nsenter --net=/proc/$other/ns/net"

ip link add left type veth peer name right netns "$other"
ip address add $here/24 dev left
$there_run ip address add $there/24 dev right
for device in lo left; do ip link set "$device" up; done
for device in lo right; do $there_run ip link set "$device" up; done

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
