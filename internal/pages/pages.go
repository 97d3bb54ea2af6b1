// SPDX-License-Identifier: Apache-2.0

// Package pages reads lists of the API server page by page.
package pages

import (
	"context"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Size bounds one response of the API server.
const Size = 500

// Of gives the pages of a list. An error is the last that it gives.
func Of[L any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, reader client.Reader, options ...client.ListOption) iter.Seq2[P, error] {
	return read(ctx, reader, func() P { return new(L) }, options)
}

// Metadata gives the pages of a list of the metadata of a kind, which is that of the objects.
func Metadata(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, options ...client.ListOption) iter.Seq2[*metav1.PartialObjectMetadataList, error] {
	return read(ctx, reader, func() *metav1.PartialObjectMetadataList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return list
	}, options)
}

// read makes a list for each page: the decoder keeps what its input does not name, and the last page names no next one.
func read[P client.ObjectList](ctx context.Context, reader client.Reader, fresh func() P, options []client.ListOption) iter.Seq2[P, error] {
	return func(yield func(P, error) bool) {
		for next, more := "", true; more; more = next != "" {
			list := fresh()
			err := reader.List(ctx, list, slices.Concat(options, []client.ListOption{client.Limit(Size), client.Continue(next)})...)
			if !yield(list, err) || err != nil {
				return
			}
			next = list.GetContinue()
		}
	}
}
