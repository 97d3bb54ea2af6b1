// SPDX-License-Identifier: Apache-2.0

// Package apijson reads JSON as the API server does (sigs.k8s.io/json), in a third of the time: the case of names matters, unknown fields are ignored, and of
// a name that occurs twice the last value counts.
package apijson

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var options = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Unmarshal decodes one JSON value. What a type keeps raw aliases no input, but for Members.
func Unmarshal(raw []byte, into any) error { return json.Unmarshal(raw, into, options) }

// Members are the members of an object, with their values as they are written: parts of the raw bytes, which must not change.
type Members struct {
	// Raw has to be set to what Unmarshal decodes.
	Raw    []byte
	Values map[string][]byte
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Null has no members.
func (m *Members) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	m.Values = nil
	if decoder.PeekKind() != jsontext.KindBeginObject {
		var null *struct{}
		return json.UnmarshalDecode(decoder, &null) // an error, unless it is null
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	m.Values = map[string][]byte{}
	for decoder.PeekKind() != jsontext.KindEndObject {
		name, err := decoder.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		end := decoder.InputOffset()
		m.Values[key] = m.Raw[end-int64(len(value)) : end]
	}
	_, err := decoder.ReadToken()
	return err
}
