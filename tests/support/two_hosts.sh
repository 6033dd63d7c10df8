# Makes two hosts from network namespaces: the shell's, and another, which `$there_run` enters.
#
# Source this from a script in its own network namespace (unshare --net).  The hosts share the file
# systems, the kernel and its page cache; they communicate only over the network between `$here` and
# `$there`.
here=10.213.0.1 there=10.213.0.2

unshare --net sleep 600 &
other=$!
folder=$(mktemp -d)
trap 'kill "$other"; rm -r "$folder"' EXIT
# The child enters its namespace before it becomes `sleep`.
while [ "$(readlink "/proc/$other/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
there_run="nsenter --net=/proc/$other/ns/net"

ip link add left type veth peer name right netns "$other"
ip address add $here/24 dev left
$there_run ip address add $there/24 dev right
for device in lo left; do ip link set "$device" up; done
for device in lo right; do $there_run ip link set "$device" up; done
