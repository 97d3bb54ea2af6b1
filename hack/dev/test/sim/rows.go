// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"

	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// rowCounter is a log sink that counts the rows of the decision tables, and passes on.
type rowCounter struct {
	next logr.LogSink

	mu   sync.Mutex
	rows map[string]int
}

var tableOf = map[string]string{"Decided": "release", "Decided about an orphan": "orphan"}

// unclassified is the row of facts that no other row fits, which is a bug of the table.
const unclassified = "release-" + string(release.RowUnclassified)

// checkRows judges the rows that were played.
func (w *World) checkRows() {
	if n := w.rows.rows[unclassified]; n > 0 {
		w.violate("decision", "%d decisions were Unclassified", n)
	}
}

// rowsOf are the rows of each table.
var rowsOf = map[string][]string{"release": names(release.Rows), "orphan": names(orphan.Rows)}

func names[R ~string](rows []R) []string {
	all := make([]string, len(rows))
	for i, row := range rows {
		all[i] = string(row)
	}
	return all
}

// Init is a sink's.
func (*rowCounter) Init(logr.RuntimeInfo) {}

// Enabled is true for what the tables say, which is level 1.
func (*rowCounter) Enabled(level int) bool { return level <= 1 }

// Info counts and passes on.
func (c *rowCounter) Info(level int, message string, keysAndValues ...any) {
	c.count(message, keysAndValues)
	if c.next != nil {
		c.next.Info(level, message, keysAndValues...)
	}
}

func (c *rowCounter) count(message string, keysAndValues []any) {
	table, is := tableOf[message]
	for i := 0; is && i+1 < len(keysAndValues); i += 2 {
		if keysAndValues[i] == "row" {
			c.mu.Lock()
			c.rows[fmt.Sprintf("%s-%v", table, keysAndValues[i+1])]++
			c.mu.Unlock()
		}
	}
}

// Error passes on.
func (c *rowCounter) Error(err error, message string, keysAndValues ...any) {
	if c.next != nil {
		c.next.Error(err, message, keysAndValues...)
	}
}

// WithValues keeps one counter for all.
func (c *rowCounter) WithValues(keysAndValues ...any) logr.LogSink {
	return (&shared{c, c.next, ""}).WithValues(keysAndValues...)
}

// WithName keeps one counter for all.
func (c *rowCounter) WithName(string) logr.LogSink { return c }

// shared is a counter with the name of the caller, and with another sink behind it, if there is one.
type shared struct {
	*rowCounter
	sink logr.LogSink
	who  string
}

// actorKeys are the values of a logger that name the caller.
var actorKeys = []string{"controller", "uid", "orphan", "namespace", "name"}

// actorOf is the caller that the logger of a context names; empty if it names none.
func actorOf(ctx context.Context) string {
	if s, ok := logr.FromContextOrDiscard(ctx).GetSink().(*shared); ok {
		return s.who
	}
	return ""
}

// Info counts and passes on.
func (s *shared) Info(level int, message string, keysAndValues ...any) {
	s.count(message, keysAndValues)
	if s.sink != nil {
		s.sink.Info(level, message, keysAndValues...)
	}
}

// Error passes on.
func (s *shared) Error(err error, message string, keysAndValues ...any) {
	if s.sink != nil {
		s.sink.Error(err, message, keysAndValues...)
	}
}

// WithValues adds to the sink behind.
func (s *shared) WithValues(keysAndValues ...any) logr.LogSink {
	next := *s
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		if key, ok := keysAndValues[i].(string); ok && slices.Contains(actorKeys, key) {
			next.who = strings.TrimSpace(fmt.Sprint(next.who, " ", keysAndValues[i+1]))
		}
	}
	if s.sink != nil {
		next.sink = s.sink.WithValues(keysAndValues...)
	}
	return &next
}
