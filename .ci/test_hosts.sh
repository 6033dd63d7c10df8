#!/usr/bin/env bash
# Test what must hold on a file system that hosts share, where .ci/hosts has set one up.  Run it
# where the tests' requirements are installed.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
failed=0

# Left out on one host: tests of the space on the disk, which FUSE tells late and not all of these file
# systems can reserve or give back; those that count the names that files are given; and a long one.
left_out="space or roll or zeros_are_free or small_chunks or looked_up or many_runs or far_away \
    or each_name or jobs or every_place"

# Run tests on the first host, with all of their files on the mount.
on_one_host() {
    # shellcheck disable=SC2086
    ${EXTARRAY_TEST_HOSTS%%$'\n'*} env -C "$PWD" EXTARRAY_TEST_FOLDER="$EXTARRAY_TEST_SHARED" \
        pytest -n auto "$@" || failed=1
}

echo "-- on one host"
on_one_host -m "not slow or hypothesis" -k "not ($left_out)" \
    tests/selection/test_indexing.py tests/array/test_{stateful,growth,shrink,rechunk}.py \
    tests/storage/test_{crash,elements,checksums,group,shared_processes,shared_stateful}.py

echo "-- killed on one host"
EXTARRAY_TEST_KILLS=40 on_one_host -k "kill and not ($left_out)" \
    tests/array/test_{shrink,rechunk}.py \
    tests/storage/test_{crash,elements,faults,group_crash,shared_processes}.py

echo "-- between two hosts"
pytest tests/hosts || failed=1

exit "$failed"
