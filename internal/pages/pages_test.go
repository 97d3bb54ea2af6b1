// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server has pages of one object each, of which the last names no next one, and the page from which on it fails.
type server struct {
	client.Reader
	pages, failing int
	asked          []client.ListOptions
}

func (s *server) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	s.asked = append(s.asked, o)
	page, _ := strconv.Atoi(o.Continue)
	if s.failing > 0 && page+1 >= s.failing {
		return errors.New("no response")
	}
	if page+1 < s.pages { // as the decoder, it leaves alone what there is nothing to say of
		list.SetContinue(strconv.Itoa(page + 1))
	}
	if pods, ok := list.(*corev1.PodList); ok {
		pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(page)}})
	}
	return nil
}

func TestEveryPageIsReadOnce(t *testing.T) {
	s := &server{pages: 3}
	var names []string
	for list, err := range Of[corev1.PodList](t.Context(), s, client.InNamespace("apps")) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	if diff := cmp.Diff([]string{"0", "1", "2"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, o := range s.asked {
		if o.Limit != Size || o.Namespace != "apps" {
			t.Errorf("asked with %+v", o)
		}
	}
}

func TestAnErrorIsTheLast(t *testing.T) {
	var failed []bool
	for _, err := range Of[corev1.PodList](t.Context(), &server{pages: 9, failing: 2}) {
		failed = append(failed, err != nil)
	}
	if diff := cmp.Diff([]bool{false, true}, failed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheKindOfMetadataIsThatOfTheObjects(t *testing.T) {
	s := &server{pages: 5}
	for list, err := range Metadata(t.Context(), s, corev1.SchemeGroupVersion.WithKind("Pod")) {
		if kind := list.GroupVersionKind().Kind; kind != "PodList" || err != nil {
			t.Errorf("read a %s, %v", kind, err)
		}
		break
	}
	if len(s.asked) != 1 {
		t.Errorf("asked %d times, though nothing was wanted after the first page", len(s.asked))
	}
}
