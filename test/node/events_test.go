// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"bufio"
	"context"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sample finds the value of a series in the text of the metrics; -1 without it.
func sample(text, series string) float64 {
	GinkgoHelper()
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), series+" "); found {
			number, err := strconv.ParseFloat(value, 64)
			Expect(err).NotTo(HaveOccurred())
			return number
		}
	}
	return -1
}

// reasons are those of the events on the world's Node.
func (w *world) reasons(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		var events eventsv1.EventList
		if err := admin.List(ctx, &events, client.InNamespace("default")); err != nil {
			return nil, err
		}
		var found []string
		for i := range events.Items {
			if e := &events.Items[i]; e.Regarding.Kind == "Node" && e.Regarding.Name == w.node.Name {
				found = append(found, e.Reason)
			}
		}
		return found, nil
	}
}
