# SPDX-License-Identifier: Apache-2.0
#
# Real Kubernetes binaries from Go modules. KUBE_MODULE is the module that pins
# the version, KUBE_BIN the folder that gets the binary and its links.

KUBE_MODULE ?= hack/kube
KUBE_BIN    ?= bin/kube

.PHONY: kube
kube: $(KUBE_BIN)/kube ## Build the real Kubernetes 1.37.1 binaries into bin/kube

$(KUBE_BIN)/kube: hack/kube/build.sh $(wildcard $(KUBE_MODULE)/*.go) $(KUBE_MODULE)/go.mod $(KUBE_MODULE)/go.sum
	@hack/kube/build.sh $(KUBE_MODULE) $(KUBE_BIN)
