# SPDX-License-Identifier: Apache-2.0
#
# Releases: docs/release.md.
#
#   VERSION        the version, with a v; by default the one that config/manager names
#   DIRTY          not empty: take the work tree as it is, although it is not the
#                  commit's
#   RELEASE_FLAGS  further flags of `release make` or `release check`
#   REGISTRY       where release-publish publishes: host and folder; by default
#                  that of the manifests

RELEASE_BIN   := bin/release
RELEASE_FLAGS ?=
DIRTY         ?=

# The makefile's default VERSION is for builds and no version of a release.
RELEASE_VERSION = $(if $(filter file undefined,$(origin VERSION)),,--version "$(VERSION)")
RELEASE         = go -C hack/release run ./
RELEASE_ARGS    = --root $(CURDIR) --output $(CURDIR)/$(RELEASE_BIN) $(RELEASE_VERSION) $(if $(DIRTY),--dirty)

LINTED += hack/release

##@ Release

.PHONY: release
release: ## Make the files of a release in bin/release (VERSION, DIRTY)
	@$(STEP) "making the release" $(RELEASE) make $(RELEASE_ARGS) $(RELEASE_FLAGS)

.PHONY: release-check
release-check: ## Make the release twice, and compare every byte (VERSION, DIRTY)
	@$(STEP) "making and checking the release" $(RELEASE) check $(RELEASE_ARGS) $(RELEASE_FLAGS)

.PHONY: release-notes
release-notes: ## Write the notes of a release to bin/release-notes.md: its section of the changelog (VERSION)
	@mkdir -p bin
	@$(STEP) "writing the notes of the release" $(RELEASE) notes --root $(CURDIR) --output $(CURDIR)/$(RELEASE_BIN)-notes.md $(RELEASE_VERSION)

.PHONY: release-publish
release-publish: ## Put the images and the chart of bin/release into a registry (VERSION, REGISTRY)
	@$(STEP) "publishing the release" $(RELEASE) publish $(RELEASE_ARGS) $(REGISTRY:%=--registry %)

# The suite of the chart installs what was published, with the real helm on a real API server.
.PHONY: release-dry-run
release-dry-run: release kube build helm-tool ## Make the release, publish it to a registry on this machine, and install it by Helm from there (VERSION, DIRTY)
	@$(STEP) "publishing to a registry on this machine, and installing from it" $(RELEASE) dry-run $(RELEASE_ARGS) -- $(GOTEST) suites chart
