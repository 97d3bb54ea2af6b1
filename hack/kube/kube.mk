# SPDX-License-Identifier: Apache-2.0
#
# Real Kubernetes binaries from Go modules.
#
#   KUBE_VERSION  the minor version: 1.37, 1.36, 1.35, 1.33 or 1.31
#   KUBE_MODULE   the module that is built; its go.mod pins 1.37, and go-1.NN.mod
#                 beside it the others
#   KUBE_BIN      the folder that gets the binary and its links

KUBE_VERSION ?= 1.37
KUBE_MODULE  ?= hack/kube
KUBE_MODFILE := $(if $(filter 1.37,$(KUBE_VERSION)),go.mod,go-$(KUBE_VERSION).mod)
KUBE_BIN     ?= bin/kube$(if $(filter 1.37,$(KUBE_VERSION)),,-$(KUBE_VERSION))

.PHONY: kube
kube: $(KUBE_BIN)/kube ## Build the real Kubernetes binaries into bin/kube (KUBE_VERSION)

$(KUBE_BIN)/kube: hack/kube/build.sh $(wildcard $(KUBE_MODULE)/*.go) \
    $(KUBE_MODULE)/$(KUBE_MODFILE) $(KUBE_MODULE)/$(KUBE_MODFILE:.mod=.sum)
	@hack/kube/build.sh $(KUBE_MODULE) $(KUBE_BIN) $(KUBE_MODFILE)
