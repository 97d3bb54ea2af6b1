// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"
)

func TestAStartWithoutBinariesAsksForThem(t *testing.T) {
	if plane, err := Start(t.Context(), Options{AssetsDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "run make kube") {
		t.Errorf("Start() = %v, %v; expected an error that says to run make kube", plane, err)
	}
}
