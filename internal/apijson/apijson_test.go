// SPDX-License-Identifier: Apache-2.0

package apijson

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
)

type object struct {
	Name   string `json:"name"`
	Number *int64 `json:"number"`
	Nested struct {
		Labels map[string]string `json:"labels"`
		List   []string          `json:"list"`
	} `json:"nested"`
}

// TestAnObjectIsReadAsTheAPIServerReadsIt compares with the decoder of the API server.
func TestAnObjectIsReadAsTheAPIServerReadsIt(t *testing.T) {
	for _, raw := range []string{
		`{"name":"a","number":7,"nested":{"labels":{"k":"v"},"list":["x"]}}`, `{"Name":"a","NAME":"b"}`, `{"name":"a","name":"b","nested":{"list":["x"]},"nested":{"labels":{}}}`,
		`{"nested":{"labels":{"k":"1","k":"2"}}}`, `{"unknown":{"deep":[1,2,{"x":null}]},"name":"a"}`, `{"name":null,"number":null,"nested":null}`, "{\"name\":\"\xff\"}",
		`{"name":"\ud800"}`, `{"name":1}`, `{"number":"7"}`, `{"number":7.5}`, `{"number":9223372036854775808}`, `{"nested":[]}`, `[]`, `null`, ``, `{"name":"a"} {}`, `{"name":"a"`, `{"name":"a",}`,
		` {"name" : "a"} `, strings.Repeat(`[`, 10001), `{"x":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `}`,
	} {
		var got, want object
		err, wantErr := Unmarshal([]byte(raw), &got), kjson.UnmarshalCaseSensitivePreserveInts([]byte(raw), &want)
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%.80q gave %v, expected %v", raw, err, wantErr)
			continue
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Errorf("%.80q (-want +got):\n%s", raw, diff)
		}
	}
}

func TestMembersAreTheBytesOfEachValue(t *testing.T) {
	for raw, want := range map[string]map[string]string{
		`{"members":{}}`:   {},
		`{"members":null}`: nil,
		`{}`:               nil,
		`{"a":1, "members" : { "x" : {"y": [1, "}"]} ,"x\u0031":"é" , "x": 7 }, "b":2}`: {"x": `7`, "x1": `"é"`},
	} {
		var o struct {
			Members Members `json:"members"`
		}
		o.Members.Raw = []byte(raw)
		if err := Unmarshal(o.Members.Raw, &o); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		var got map[string]string
		for name, value := range o.Members.Values {
			if got == nil {
				got = map[string]string{}
			}
			got[name] = string(value)
		}
		if len(want) != len(got) || len(want) > 0 && !cmp.Equal(want, got) {
			t.Errorf("%s has %v, expected %v", raw, got, want)
		}
	}
	for _, raw := range []string{`{"members":[]}`, `{"members":"x"}`, `{"members":{"x"}}`, `{"members":{"x":}}`, `{"members":{"x":1`} {
		var o struct {
			Members Members `json:"members"`
		}
		o.Members.Raw = []byte(raw)
		if Unmarshal(o.Members.Raw, &o) == nil {
			t.Errorf("%s was read", raw)
		}
	}
}
