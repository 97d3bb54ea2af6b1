// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// leftovers are all objects of the API server that are ours, or that carry something of ours: its resources are asked for, not
// known. Events are not read: they report the past, and expire by themselves.
func leftovers(ctx context.Context) []string {
	GinkgoHelper()
	finder, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	objects, err := metadata.NewForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	served, err := finder.ServerPreferredResources()
	Expect(err).NotTo(HaveOccurred())
	var left []string
	asked := 0
	for _, group := range served {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		Expect(err).NotTo(HaveOccurred())
		for i := range group.APIResources {
			resource := &group.APIResources[i]
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" {
				continue
			}
			asked++
			list, err := objects.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) { // a definition that went in between
				continue
			}
			Expect(err).NotTo(HaveOccurred(), "%s %s", group.GroupVersion, resource.Name)
			for j := range list.Items {
				if bearsOurs(version, &list.Items[j]) {
					left = append(left, fmt.Sprintf("%s %s/%s", resource.Kind, list.Items[j].Namespace, list.Items[j].Name))
				}
			}
		}
	}
	Expect(asked).To(BeNumerically(">", 50), "the API server serves more resources than were asked for")
	return left
}

// bearsOurs reports whether our name is in an object's group, name, labels, annotations, finalizers or owners. A pod that is being
// deleted may keep, for its last seconds, the reason with which the finalizer came off.
func bearsOurs(group schema.GroupVersion, object *metav1.PartialObjectMetadata) bool {
	object.ManagedFields = nil
	if object.DeletionTimestamp != nil {
		delete(object.Annotations, v1alpha1.UnholdAnnotation)
	}
	text, err := json.Marshal(object.ObjectMeta)
	Expect(err).NotTo(HaveOccurred())
	return strings.Contains(group.Group, "holdfast") || strings.Contains(string(text), "holdfast")
}
