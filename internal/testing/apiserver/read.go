// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func (s *Server) get(q *request) (*reply, error) {
	found := s.find(q)
	if found == nil {
		return nil, q.notFound()
	}
	body, err := q.encode(found)
	return &reply{body: body}, err
}

// selector is which objects a list or watch is about.
type selector struct {
	kind      *Kind
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (q *request) selector() (selector, error) {
	byLabel, err := labels.Parse(q.query.Get("labelSelector"))
	if err != nil {
		return selector{}, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(q.query.Get("fieldSelector"))
	if err != nil {
		return selector{}, apierrors.NewBadRequest(err.Error())
	}
	known := q.kind.fieldsOf(object{})
	for _, r := range byField.Requirements() {
		if _, ok := known[r.Field]; !ok {
			return selector{}, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return selector{kind: q.kind, namespace: q.namespace, labels: byLabel, fields: byField}, nil
}

// fieldsOf are the fields of an object that selectors can name.
func (k *Kind) fieldsOf(o object) fields.Set {
	set := fields.Set{}
	if k.strategy.selectable != nil {
		set = k.strategy.selectable(o)
	}
	u := unstructured.Unstructured{Object: o}
	set["metadata.name"] = u.GetName()
	if k.Namespaced {
		set["metadata.namespace"] = u.GetNamespace()
	}
	return set
}

func (s selector) matches(o *stored) bool {
	if o == nil {
		return false
	}
	u := unstructured.Unstructured{Object: o.object}
	if s.namespace != "" && u.GetNamespace() != s.namespace {
		return false
	}
	return (s.labels.Empty() || s.labels.Matches(labels.Set(u.GetLabels()))) &&
		(s.fields.Empty() || s.fields.Matches(s.kind.fieldsOf(o.object)))
}

// page is where a list continues: after a key, in the state of a revision.
type page struct {
	Revision uint64 `json:"rv"`
	After    string `json:"after"`
}

func (s *Server) list(q *request) (*reply, error) {
	sel, err := q.selector()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	from, err := s.startPage(q)
	if err != nil {
		return nil, err
	}
	limit, _ := strconv.Atoi(q.query.Get("limit"))
	state := s.at(q.kind, from.Revision)
	items, metadata := [][]byte{}, metav1.ListMeta{ResourceVersion: strconv.FormatUint(from.Revision, 10)}
	for _, name := range slices.Sorted(maps.Keys(state)) {
		if name <= from.After || !sel.matches(state[name]) {
			continue
		}
		if limit > 0 && len(items) == limit {
			if metadata.Continue, err = from.token(); err != nil {
				return nil, err
			}
			break
		}
		raw, err := q.item(state[name])
		if err != nil {
			return nil, err
		}
		items, from.After = append(items, raw), name
	}
	if q.wantsProtobuf() {
		body, err := q.kind.listed(metadata, items)
		return &reply{body: body}, err
	}
	kind, version := q.kind.Kind+"List", q.kind.GroupVersion().String()
	if strings.Contains(q.http.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	head, err := json.Marshal(object{"kind": kind, "apiVersion": version, "metadata": metadata})
	return &reply{body: slices.Concat(head[:len(head)-1], []byte(`,"items":[`), bytes.Join(items, []byte(",")), []byte("]}"))}, err
}

// item is an object in a list.
func (q *request) item(o *stored) ([]byte, error) {
	if q.wantsProtobuf() {
		return o.message()
	}
	return q.encode(o)
}

// startPage is where the list starts: at the present, or where its continue token says.
func (s *Server) startPage(q *request) (page, error) {
	token := q.query.Get("continue")
	if token == "" && q.query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) {
		exact, err := strconv.ParseUint(q.query.Get("resourceVersion"), 10, 64)
		if err == nil && exact < s.compacted {
			err = errors.New("compacted")
		}
		if err != nil {
			return page{}, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
		}
		return page{Revision: exact}, nil
	}
	if token == "" {
		return page{Revision: s.revision}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	var p page
	if err != nil || json.Unmarshal(raw, &p) != nil {
		return page{}, apierrors.NewBadRequest("continue key is not valid")
	}
	if p.Revision < s.compacted {
		return page{}, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result")
	}
	return p, nil
}

func (p page) token() (string, error) {
	raw, err := json.Marshal(p)
	return base64.RawURLEncoding.EncodeToString(raw), err
}
