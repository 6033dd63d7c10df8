#!/usr/bin/env bash
# Test what must hold on a file system that hosts share, where .ci/hosts has set one up.  Run it
# where the tests' requirements are installed.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
first=${EXTARRAY_TEST_HOSTS%%$'\n'*}

# On one host, with all files on the mount: slices, states, growth, kills, groups, checksums.
# shellcheck disable=SC2086
$first env -C "$PWD" EXTARRAY_TEST_FOLDER="$EXTARRAY_TEST_SHARED" pytest -n auto \
    -m "not slow or process or hypothesis" \
    tests/selection/test_indexing.py \
    tests/array/test_{stateful,growth,shrink,rechunk,folders}.py \
    tests/storage/test_{crash,elements,checksums,group,group_crash,publication,stale_readers}.py \
    tests/storage/test_{shared,shared_processes,shared_stateful}.py
one=$?

# Between the hosts.
pytest tests/hosts
two=$?
exit $((one ? one : two))
