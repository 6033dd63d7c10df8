set -e
cd /tmp/w/tmp-re/fs
img=/tmp/w/tmp-re/fs/image; m=/tmp/w/tmp-re/fs/mnt; mkdir -p $m
one() { # name mkfs opts
  rm -f $img; truncate -s 1G $img; $2 $img >/dev/null 2>&1; mkdir -p $m/$1; mount -o loop,$3 $img $m/$1
  python measure.py $m/$1 $data $n || true
  umount $m/$1; rm -f $img
}
for data in "$@"; do n=${n:-20}; echo "== $data x $n";
one ext4 "mkfs.ext4 -q" defaults
one xfs "mkfs.xfs -q" defaults
one btrfs "mkfs.btrfs -q" noatime
one btrfs-lzo "mkfs.btrfs -q" compress=lzo
one btrfs-zstd1 "mkfs.btrfs -q" compress=zstd:1
one btrfs-zstd3 "mkfs.btrfs -q" compress=zstd:3
one btrfs-force "mkfs.btrfs -q" compress-force=zstd:3
done
