// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Native kinds are served in protobuf where the client accepts it, as the API server does: a client reads it several times as fast as JSON.
// Requests are JSON.

// protobufPrefix is in front of each object (k8s.io/apimachinery/pkg/runtime/serializer/protobuf).
var protobufPrefix = []byte{'k', '8', 's', 0}

// The fields of every list of a native kind: its metadata and its items, both with a length.
const listMetadata, listItem = 1<<3 | 2, 2<<3 | 2

// wantsProtobuf reports whether the response is in protobuf.
func (q *request) wantsProtobuf() bool {
	accept := q.http.Header.Get("Accept")
	return q.kind != nil && q.kind.native != nil && strings.Contains(accept, runtime.ContentTypeProtobuf) && !strings.Contains(accept, "as=PartialObjectMetadata")
}

// contentType is that of a watch.
func (q *request) contentType() string {
	if q.wantsProtobuf() {
		return runtime.ContentTypeProtobuf
	}
	return runtime.ContentTypeJSON
}

// contentTypeOf is that of a response: a Status is JSON also where objects are not.
func contentTypeOf(body []byte) string {
	if bytes.HasPrefix(body, protobufPrefix) {
		return runtime.ContentTypeProtobuf
	}
	return runtime.ContentTypeJSON
}

// message is an object of a native kind in protobuf.
func (k *Kind) message(o object) ([]byte, error) {
	typed := reflect.New(k.native).Interface()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, typed); err != nil {
		return nil, err
	}
	marshaler, ok := typed.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("a %s has no protobuf", k.Kind)
	}
	return marshaler.Marshal()
}

// envelope is a message with its kind.
func (k *Kind) envelope(kind string, message []byte) ([]byte, error) {
	raw, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: k.GroupVersion().String(), Kind: kind}, Raw: message}).Marshal()
	return slices.Concat(protobufPrefix, raw), err
}

// listed is a list of messages.
func (k *Kind) listed(metadata metav1.ListMeta, items [][]byte) ([]byte, error) {
	head, err := metadata.Marshal()
	if err != nil {
		return nil, err
	}
	list := append(binary.AppendUvarint([]byte{listMetadata}, uint64(len(head))), head...)
	for _, item := range items {
		list = append(binary.AppendUvarint(append(list, listItem), uint64(len(item))), item...)
	}
	return k.envelope(k.Kind+"List", list)
}

// protobufFrame is an event of a watch, with its length in front.
func protobufFrame(kind string, raw []byte) []byte {
	event, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}).Marshal()
	if err != nil {
		return nil
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

// failure is a Status as the object of an event.
func (q *request) failure(status *metav1.Status) ([]byte, error) {
	if !q.wantsProtobuf() {
		return json.Marshal(status)
	}
	message, err := status.Marshal()
	if err != nil {
		return nil, err
	}
	raw, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, Raw: message}).Marshal()
	return slices.Concat(protobufPrefix, raw), err
}
