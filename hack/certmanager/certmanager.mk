# SPDX-License-Identifier: Apache-2.0
#
# cert-manager from its Go module, for clusters of our own. CERTMANAGER_BIN gets
# the binary and, in crds/, the CustomResourceDefinitions.

CERTMANAGER_BIN := bin/certmanager

##@ Cluster

.PHONY: certmanager
certmanager: $(CERTMANAGER_BIN)/.built ## Build cert-manager into bin/certmanager

$(CERTMANAGER_BIN)/.built: hack/certmanager/build.sh $(filter-out %_test.go,$(wildcard hack/certmanager/*.go)) \
    hack/certmanager/go.mod hack/certmanager/go.sum
	@$(STEP) "building cert-manager into $(CERTMANAGER_BIN)" hack/certmanager/build.sh $(CERTMANAGER_BIN)
	@touch $@
