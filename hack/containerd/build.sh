#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds containerd, its shim and ctr, in the version that a go.mod beside this
# script requires: go.mod itself for the newest, go-MINOR.mod for the others.
#
#   hack/containerd/build.sh MINOR OUTPUT_DIR
set -eu

if [ $# -ne 2 ]; then
	echo "usage: $0 MINOR OUTPUT_DIR" >&2
	exit 2
fi
minor=$1
folder=$(cd "$(dirname "$0")" && pwd)

# required prints the version of containerd that a go.mod requires.
required() { awk '$1 ~ /^github.com\/containerd\/containerd(\/v2)?$/ && $2 ~ /^v/ { print $2 }' "$1"; }

known=
for modfile in "$folder"/*.mod; do
	version=$(required "$modfile")
	case $version in
	v"$minor".*)
		mkdir -p "$2"
		out=$(cd "$2" && pwd)
		module=github.com/containerd/containerd
		case $version in v2.*) module=$module/v2 ;; esac
		cd "$folder"
		# Without cgo no C compiler is needed; the tags leave out snapshotters that need one.
		CGO_ENABLED=0 exec go build -modfile="$modfile" -trimpath -buildvcs=false -tags no_btrfs,no_zfs,no_devmapper \
			-ldflags "-s -w -X $module/version.Version=$version" -o "$out/" tool
		;;
	esac
	version=${version#v}
	known="$known ${version%.*}"
done
echo "containerd \"$minor\" cannot be built: expected one of$known (CONTAINERD), or none for the one in PATH" >&2
exit 2
