// SPDX-License-Identifier: Apache-2.0

package release

type factState uint8

const (
	// unread is the zero value and is invalid on purpose: a row that needs the fact waits.
	unread factState = iota
	known
	absent
	unknown
)

// Fact is something that was looked at: Known with a value, Absent (it was read and is not there) or Unknown (it could not
// be read). The zero Fact was never looked at; a row that needs it waits as for Unknown.
type Fact[T any] struct {
	state factState
	value T
	why   string
}

// Known is a fact that was read.
func Known[T any](value T) Fact[T] { return Fact[T]{state: known, value: value} }

// Absent is a fact that was read and found not to be there.
func Absent[T any]() Fact[T] { return Fact[T]{state: absent} }

// Unknown is a fact that could not be read; why is for the reader of the wait's message.
func Unknown[T any](why string) Fact[T] { return Fact[T]{state: unknown, why: why} }

// IsKnown says whether the fact has a value.
func (f Fact[T]) IsKnown() bool { return f.state == known }

// IsAbsent says whether the thing was read and is not there.
func (f Fact[T]) IsAbsent() bool { return f.state == absent }

// IsUnknown says whether the read failed.
func (f Fact[T]) IsUnknown() bool { return f.state == unknown }

// IsRead says whether the fact is Known or Absent: something that a row may rest on.
func (f Fact[T]) IsRead() bool { return f.state == known || f.state == absent }

// Get returns the value; the zero value of T unless the fact is Known.
func (f Fact[T]) Get() T { return f.value }

// Why says why the fact is Unknown.
func (f Fact[T]) Why() string {
	if f.state == unread {
		return "it was not read"
	}
	return f.why
}
