#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds cert-manager, in the version that go.mod beside this script requires,
# and puts its CustomResourceDefinitions beside it.
#
#   hack/certmanager/build.sh OUTPUT_DIR
#
# The binary is static: it runs in an image without a base.
set -eu

module=github.com/cert-manager/cert-manager

if [ $# -ne 1 ]; then
	echo "usage: $0 OUTPUT_DIR" >&2
	exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"

new=$out/.new
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
rm -rf "$new"
mkdir -p "$new"

# It names its version to the API server, as its user agent.
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$new/certmanager" \
	-ldflags "-s -w -X $module/pkg/util.AppVersion=$(go list -m -f '{{.Version}}' $module)" .

mkdir "$new/crds"
cp "$(go list -m -f '{{.Dir}}' $module)"/deploy/crds/*.yaml "$new/crds/"
# The module cache is read-only, and so are copies of its files.
chmod -R u+w "$new/crds"

mv -f "$new/certmanager" "$out/certmanager"
rm -rf "$out/crds"
mv "$new/crds" "$out/crds"
