#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the multi-call Kubernetes binary of a module and links each component
# to it.
#
#   hack/kube/build.sh MODULE_DIR OUTPUT_DIR [MODFILE]
#
# The Kubernetes version is the one that MODULE_DIR/go.mod requires, or another
# go.mod of that folder that MODFILE names (go help modules). Progress is
# one line that is rewritten on a terminal, and one line every 15 s in a log.
set -eu

components="etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl k3s"

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
	echo "usage: $0 MODULE_DIR OUTPUT_DIR [MODFILE]" >&2
	exit 2
fi
module=$1
modfile=${3:-go.mod}
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$module"

# Without cgo no C compiler is needed and the result does not depend on one.
export CGO_ENABLED=0

version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2 }' "$modfile")
case $version in
v1.[0-9]*.[0-9]*) ;;
*)
	echo "$module/$modfile requires k8s.io/kubernetes at \"$version\": expected a version like v1.37.1" >&2
	exit 1
	;;
esac
minor=${version#v1.}
minor=${minor%%.*}
tags=
if [ "$minor" -lt 34 ]; then tags=before_1_34; fi

# A binary that reports v0.0.0 switches version-dependent features wrongly.
ldflags="-s -w"
for package in k8s.io/client-go/pkg/version k8s.io/component-base/version; do
	ldflags="$ldflags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
	ldflags="$ldflags -X $package.gitTreeState=clean"
done

log=$(mktemp)
build=
cleanup() {
	if [ -n "$build" ]; then kill "$build" 2>/dev/null || true; fi
	rm -f "$log" "$log.list" "$out/.kube.new"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start=$(date +%s)
elapsed() {
	seconds=$(($(date +%s) - start))
	printf '%dm%02ds' $((seconds / 60)) $((seconds % 60))
}
compiled() { grep -cv '[ :]' "$log" || true; }

if [ -t 1 ]; then
	period=1
	show() { printf '\r\033[K%s' "$*"; }
else
	period=15
	show() { printf '%s\n' "$*"; }
fi

show "Kubernetes $version: fetching modules"
if ! go list -modfile="$modfile" -tags "$tags" -deps -f '{{.ImportPath}}' . >"$log.list" 2>"$log"; then
	printf '\n' && cat "$log" >&2
	exit 1
fi
total=$(grep -c . "$log.list")
: >"$log"

go build -modfile="$modfile" -tags "$tags" -v -trimpath -buildvcs=false -ldflags "$ldflags" -o "$out/.kube.new" . 2>"$log" &
build=$!
ticks=0
while kill -0 "$build" 2>/dev/null; do
	if [ $((ticks % period)) -eq 0 ]; then
		show "Kubernetes $version: $(compiled) of at most $total packages compiled, $(elapsed)"
	fi
	ticks=$((ticks + 1))
	sleep 1
done
status=0
wait "$build" || status=$?
build=
if [ "$status" -ne 0 ]; then
	printf '\n' && grep '[ :]' "$log" >&2 || true
	echo "building Kubernetes $version in $module failed after $(elapsed)" >&2
	exit "$status"
fi

mv -f "$out/.kube.new" "$out/kube"
for component in $components; do
	ln -sf kube "$out/$component"
done
show "Kubernetes $version: built in $(elapsed) ($(compiled) packages compiled), $(du -h "$out/kube" | cut -f1) in $2"
if [ -t 1 ]; then printf '\n'; fi
