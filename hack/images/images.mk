# SPDX-License-Identifier: Apache-2.0
#
# Images out of static binaries, and what users do with them. `images`, `push`
# and `deploy` are about the released images; `cluster-images` makes those of
# clusters of our own.
#
#   REGISTRY         registry and folder of the released images
#   TAG              its tag, by default the version
#   ARCHES           the architectures that are pushed, as Go names them
#   COMPONENTS       the folders of config/components to install with it
#   UNINSTALL_FLAGS  flags of `manager uninstall`
#
# deploy and undeploy work on the cluster that kubectl knows.

REGISTRY        ?=
TAG             ?= $(VERSION)
NATIVE_ARCH     := $(shell go env GOARCH)
ARCHES          ?= $(NATIVE_ARCH)
COMPONENTS      ?=
UNINSTALL_FLAGS ?=
KUBECTL         ?= kubectl

IMAGES_BIN  := bin/images
IMAGES       = go -C hack/images run ./
IMAGE_FLAGS  = --root $(CURDIR) --registry "$(REGISTRY)" --tag "$(TAG)"
IMAGE_REPO   = $(or $(REGISTRY:%/=%),ghcr.io/holdfast-dev)

##@ Install

.PHONY: images
images: ARCHES := $(NATIVE_ARCH)
images: image-binaries ## Make the released images, as archives in bin/images (TAG, REGISTRY)
	@$(STEP) "making $(IMAGE_REPO)/holdfast-*:$(TAG)" $(IMAGES) save $(IMAGE_FLAGS) --output $(CURDIR)/$(IMAGES_BIN)

.PHONY: push
push: push-check image-binaries ## Push the released images (REGISTRY, TAG, ARCHES)
	@$(STEP) "pushing $(IMAGE_REPO)/holdfast-*:$(TAG)" $(IMAGES) push $(IMAGE_FLAGS) $(ARCHES:%=--arch %)

.PHONY: push-check
push-check:
	@test -n "$(REGISTRY)" || \
	  { echo "REGISTRY is not set: make push REGISTRY=registry.example.com/team TAG=$(TAG)" >&2; exit 2; }

.PHONY: deploy
deploy: ## Install Holdfast with the images of REGISTRY and TAG (COMPONENTS)
	@$(STEP) "installing $(IMAGE_REPO)/holdfast-manager:$(TAG)" env KUBECTL="$(KUBECTL)" KUSTOMIZE="$(KUSTOMIZE)" \
	  hack/images/deploy.sh "$(IMAGE_REPO)" "$(TAG)" $(COMPONENTS)

.PHONY: undeploy
undeploy: build ## Uninstall Holdfast, and prove that no pod is held (UNINSTALL_FLAGS)
	@$(STEP) "uninstalling Holdfast" bin/manager uninstall $(UNINSTALL_FLAGS)

# The kernel that images run on is Linux, wherever they are built.
.PHONY: image-binaries
image-binaries:
	@for arch in $(ARCHES); do $(STEP) "building the manager and the agent for linux/$$arch" env CGO_ENABLED=0 GOOS=linux GOARCH=$$arch \
	  go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(IMAGES_BIN)/linux-$$arch/ ./cmd/manager ./cmd/agent || exit 1; done

##@ Cluster

# Before 0.9 whereabouts has no program of its own for these.
CLUSTER_IMAGES := $(if $(WHEREABOUTS),pause workload certmanager whereabouts)

.PHONY: cluster-images
cluster-images: $(IMAGES_BIN)/.cluster ## Make the images of clusters of our own in bin/images

$(IMAGES_BIN)/.cluster: $(CNI_BUILT) $(CERTMANAGER_BIN)/.built \
    $(wildcard hack/images/*.go hack/images/*/*/*.go) hack/images/images.yaml hack/images/go.mod hack/images/go.sum
	@$(STEP) "building the programs of the cluster's images" env CGO_ENABLED=0 GOOS=linux \
	  go -C hack/images build -trimpath -buildvcs=false -ldflags "-s -w" -o $(CURDIR)/$(IMAGES_BIN)/linux-$(NATIVE_ARCH)/ ./cmd/...
	@$(STEP) "making the cluster's images" \
	  $(IMAGES) save $(IMAGE_FLAGS) --group cluster --output $(CURDIR)/$(IMAGES_BIN) $(CLUSTER_IMAGES)
	@touch $@
