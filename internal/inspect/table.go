// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

// Table is a part of a report as a terminal shows it: sentences, and rows below a heading.
type Table struct {
	// Heading stands above; empty for none.
	Heading string
	// Lines are sentences between heading and rows.
	Lines []string
	// Columns and Rows are the table; no columns for none. None says what stands there when there are no rows.
	Columns []Column
	Rows    [][]string
	None    string
}

// Column is a heading of a column. Wide ones are only shown with -o wide.
type Column struct {
	Name string
	Wide bool
}

// Columns makes columns. A name that begins with "+" is shown only with -o wide.
func Columns(names ...string) []Column {
	columns := make([]Column, 0, len(names))
	for _, name := range names {
		bare, wide := strings.CutPrefix(name, "+")
		columns = append(columns, Column{Name: bare, Wide: wide})
	}
	return columns
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Say adds a sentence.
func (t *Table) Say(format string, args ...any) {
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
	switch {
	case len(t.Rows) == 0 && t.None != "":
		_, err := fmt.Fprintln(w, t.None)
		return err
	case len(t.Rows) == 0:
		return nil
	}
	table := &metav1.Table{}
	for _, column := range t.Columns {
		definition := metav1.TableColumnDefinition{Name: column.Name, Type: "string"}
		if column.Wide {
			definition.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, definition)
	}
	for _, cells := range t.Rows {
		row := metav1.TableRow{}
		for _, cell := range cells {
			row.Cells = append(row.Cells, orDash(cell))
		}
		table.Rows = append(table.Rows, row)
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, w)
}

func orDash(cell string) string {
	if cell == "" {
		return "-"
	}
	return cell
}

// Age is how long ago a time was, as kubectl shows it; empty for none.
func Age(t *metav1.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// Timestamp is a time as all reports show it, in UTC; empty for none.
func Timestamp(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Short is the beginning of a sandbox ID, as runtimes' own tools show it.
func Short(id string) string {
	const length = 13
	if len(id) > length {
		return id[:length]
	}
	return id
}

// Plain is a writer without a way to control the terminal: names, messages and annotations are written by anybody.
func Plain(w io.Writer) io.Writer { return plain{w} }

type plain struct{ io.Writer }

// Write shows control characters as "?", but for line feeds and tabs. It reports the length of what it was given.
func (p plain) Write(text []byte) (int, error) {
	shown := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == 0xc2 && i+1 < len(text) && text[i+1] >= 0x80 && text[i+1] < 0xa0: // U+0080 to U+009F
			shown = append(shown, '?')
			i++
		case c < ' ' && c != '\n' && c != '\t' || c == 0x7f:
			shown = append(shown, '?')
		default:
			shown = append(shown, c)
		}
	}
	if _, err := p.Writer.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}
