// SPDX-License-Identifier: Apache-2.0

package release

type factState uint8

const (
	// unread is the zero value: a row that needs the fact waits.
	unread factState = iota
	known
	absent
	unknown
)

// Fact is the result of a read: Known with a value, Absent (it does not exist) or Unknown (the read failed). The zero Fact was never read; a row
// that needs it waits as for Unknown.
type Fact[T any] struct {
	state factState
	value T
	why   string
}

// Known is a fact that was read.
func Known[T any](value T) Fact[T] { return Fact[T]{state: known, value: value} }

// Absent is a fact that was read and does not exist.
func Absent[T any]() Fact[T] { return Fact[T]{state: absent} }

// Unknown is a fact that could not be read; why is part of the message of the wait.
func Unknown[T any](why string) Fact[T] { return Fact[T]{state: unknown, why: why} }

// IsKnown says whether the fact has a value.
func (f Fact[T]) IsKnown() bool { return f.state == known }

// IsAbsent says whether the fact was read and does not exist.
func (f Fact[T]) IsAbsent() bool { return f.state == absent }

// IsUnknown says whether the read failed.
func (f Fact[T]) IsUnknown() bool { return f.state == unknown }

// IsRead says whether the fact is Known or Absent, so that a decision may rest on it.
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

// Convert is a fact in another form.
func Convert[A, B any](fact Fact[A], to func(A) B) Fact[B] {
	switch {
	case fact.IsKnown():
		return Known(to(fact.Get()))
	case fact.IsAbsent():
		return Absent[B]()
	}
	return Unknown[B](fact.Why())
}

// FactOf is a fact that was read, or why it could not be.
func FactOf[T any](value T, err error) Fact[T] {
	if err != nil {
		return Unknown[T](err.Error())
	}
	return Known(value)
}
