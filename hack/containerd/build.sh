#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds containerd, its shim and ctr, in the version of a minor that the file
# versions beside this script pins. Each line there is a module, its version and
# the hash that go.sum would have.
#
#   hack/containerd/build.sh MINOR OUTPUT_DIR
set -eu

if [ $# -ne 2 ]; then
	echo "usage: $0 MINOR OUTPUT_DIR" >&2
	exit 2
fi
versions=$(dirname "$0")/versions
line=$(awk -v minor="v$1." 'index($2, minor) == 1' "$versions")
if [ -z "$line" ]; then
	known=$(awk '{ sub(/^v/, "", $2); sub(/\.[^.]*$/, "", $2); printf " %s", $2 }' "$versions")
	echo "containerd \"$1\" cannot be built: expected one of$known (CONTAINERD), or none for the one in PATH" >&2
	exit 2
fi
read -r module version pinned <<END
$line
END

mkdir -p "$2"
out=$(cd "$2" && pwd)
cd /
downloaded=$(go mod download -json "$module@$version")
# field prints a field of what was downloaded.
field() { printf '%s\n' "$downloaded" | sed -n "s/^.*\"$1\": \"\(.*\)\",*\$/\1/p"; }
if [ "$(field Sum)" != "$pinned" ]; then
	echo "$module@$version is not what $versions pins: got $(field Sum), expected $pinned" >&2
	exit 1
fi

# A go.mod that required containerd would not have its replaces: with other versions in their place 1.6 panics in ttrpc.
cd "$(field Dir)"
# Without cgo no C compiler is needed; the tags leave out snapshotters that need one.
CGO_ENABLED=0 exec go build -mod=readonly -trimpath -buildvcs=false -tags no_btrfs,no_zfs,no_devmapper \
	-ldflags "-s -w -X $module/version.Version=$version" -o "$out/" ./cmd/containerd ./cmd/containerd-shim-runc-v2 ./cmd/ctr
