# SPDX-License-Identifier: Apache-2.0
#
# The picture of the dashboard in docs/pictures, drawn by hack/promql from a
# recording of real processes. `dashboard-picture record --help` says how to make
# another one.
#
#   RECORDING  the recording that is drawn

RECORDING ?= $(CURDIR)/hack/promql/testdata/failures

##@ Pictures

.PHONY: dashboard-picture
dashboard-picture: ## Draw the dashboard from a recording
	@$(STEP) "drawing the dashboard" go -C hack/promql run ./cmd/dashboard-picture render \
	  --dashboard $(CURDIR)/config/prometheus/dashboard.json --from $(RECORDING) --out $(CURDIR)/docs/pictures/dashboard.png
