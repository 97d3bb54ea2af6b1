// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

// Table is a part of a report in a terminal.
type Table struct {
	// Heading stands above; empty for none. Lines stand between heading and rows.
	Heading string
	Lines   []string
	// Columns are the names of columns, separated by commas. One that begins with "+" is shown only with -o wide.
	Columns string
	Rows    [][]string
	// None is shown if there are no rows.
	None string
}

// TableOf makes a table with a row for each item.
func TableOf[T any](heading, columns, none string, items []T, cells func(*T) []string) Table {
	t := Table{Heading: heading, Columns: columns, None: none}
	for i := range items {
		t.Rows = append(t.Rows, cells(&items[i]))
	}
	return t
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Line adds a line.
func (t *Table) Line(format string, args ...any) {
	t.Lines = append(t.Lines, fmt.Sprintf(format, args...))
}

// Write shows tables one below the other.
func Write(w io.Writer, tables []Table, wide bool) error {
	w = Plain(w)
	shown := 0
	for i := range tables {
		t := &tables[i]
		if len(t.Lines) == 0 && len(t.Rows) == 0 && t.None == "" {
			continue
		}
		if shown > 0 {
			fmt.Fprintln(w)
		}
		shown++
		if err := t.write(w, wide); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) write(w io.Writer, wide bool) error {
	if t.Heading != "" {
		fmt.Fprintln(w, t.Heading)
	}
	for _, line := range t.Lines {
		fmt.Fprintln(w, line)
	}
	if len(t.Rows) == 0 {
		if t.None == "" {
			return nil
		}
		_, err := fmt.Fprintln(w, t.None)
		return err
	}
	table := &metav1.Table{}
	for name := range strings.SplitSeq(t.Columns, ",") {
		column := metav1.TableColumnDefinition{Name: strings.TrimPrefix(name, "+"), Type: "string"}
		if column.Name != name {
			column.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, column)
	}
	for _, cells := range t.Rows {
		row := metav1.TableRow{}
		for _, cell := range cells {
			row.Cells = append(row.Cells, cmp.Or(cell, "-"))
		}
		table.Rows = append(table.Rows, row)
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, w)
}

// Age is how long ago a time was, as kubectl shows it; empty for none.
func Age(t *metav1.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// Timestamp is a time in UTC; empty for none.
func Timestamp(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Short is the beginning of a sandbox ID, as the tools of container runtimes show it.
func Short(id string) string { return id[:min(len(id), 13)] }

// Plain is a writer without a way to control the terminal: any client writes names, messages and annotations.
func Plain(w io.Writer) io.Writer { return plain{w} }

type plain struct{ io.Writer }

// Write shows control characters as "?", but for line feeds and tabs. It reports the length of what it was given.
func (p plain) Write(text []byte) (int, error) {
	shown := bytes.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return '?'
		}
		return c
	}, text)
	if _, err := p.Writer.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}
