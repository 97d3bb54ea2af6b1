// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"image/color"
	"time"

	"github.com/prometheus/prometheus/promql"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	// barsAtMost and legendLines bound what finds room in a panel.
	barsAtMost  = 8
	legendLines = 2
)

// figure is one value on the color of its threshold, or several beside each other.
func (d *drawing) figure(c draw.Canvas, p *Panel, curves []curve) error {
	width := (c.Max.X - c.Min.X) / vg.Length(len(curves))
	for i, curve := range curves {
		part := draw.Crop(c, width*vg.Length(i), -width*vg.Length(len(curves)-1-i), 0, 0)
		tint, err := p.FieldConfig.colorOf(curve.last())
		if err != nil {
			return fmt.Errorf("panel %q: %w", p.Title, err)
		}
		box(part, tint)
		d.middle(part, format(curve.last(), p.FieldConfig.Defaults.Unit), figureSize, white)
	}
	d.title(c, p, white)
	return nil
}

// bars are one line for each series: its name, a bar, the value.
func (d *drawing) bars(c draw.Canvas, p *Panel, curves []curve) error {
	d.title(c, p, ink)
	most := 0.0
	for _, curve := range curves {
		most = max(most, curve.last())
	}
	if p.FieldConfig.Defaults.Max != nil {
		most = *p.FieldConfig.Defaults.Max
	}
	shown := curves[:min(len(curves), barsAtMost)]
	height := (c.Max.Y - c.Min.Y - 3*inset - titleSize) / barsAtMost
	third := (c.Max.X - c.Min.X - 2*inset) / 3
	for i, curve := range shown {
		tint, err := p.FieldConfig.colorOf(curve.last())
		if err != nil {
			return fmt.Errorf("panel %q: %w", p.Title, err)
		}
		top := c.Max.Y - titleSize - 2*inset - height*vg.Length(i)
		left := c.Min.X + inset + third
		bar := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: left, Y: top - height + 4}, Max: vg.Point{X: left + third*3/2, Y: top}}}
		box(bar, page)
		share := 0.0
		if most > 0 {
			share = min(1, max(0, curve.last()/most))
		}
		bar.Max.X = bar.Min.X + (bar.Max.X-bar.Min.X)*vg.Length(share)
		box(bar, tint)
		d.write(curve.legend, smallSize, ink, vg.Point{X: c.Min.X + inset, Y: bar.Min.Y + 3}, sans)
		d.write(format(curve.last(), p.FieldConfig.Defaults.Unit), smallSize, ink, vg.Point{X: left + third*3/2 + inset, Y: bar.Min.Y + 3}, bold)
	}
	return nil
}

// series are curves over the time, with a legend below.
func (d *drawing) series(c draw.Canvas, p *Panel, curves []curve) error {
	d.title(c, p, ink)
	below := d.legend(c, curves)
	chart := plot.New()
	chart.BackgroundColor = color.Transparent
	unit := p.FieldConfig.Defaults.Unit
	chart.X.Min, chart.X.Max = float64(d.from.span.Start.Unix()), float64(d.from.span.End.Unix())
	chart.X.Tick.Marker = plot.TimeTicks{Format: "15:04:05", Time: func(t float64) time.Time { return time.Unix(int64(t), 0).UTC() }}
	chart.Y.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick { return ticks(low, high, unit) })
	for _, axis := range []*plot.Axis{&chart.X, &chart.Y} {
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = border, border
		axis.Tick.Label.Font.Size, axis.Tick.Label.Color = smallSize-1, faint
		axis.Tick.Label.Font.Variant = "Sans"
		axis.Padding = 0
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, border
	chart.Add(grid)
	highest := 0.0
	for i, curve := range curves {
		tint := palette[i%len(palette)]
		for _, row := range unbroken(curve.points, step(d.from.span)) {
			line, err := plotter.NewLine(row)
			if err != nil {
				return fmt.Errorf("panel %q: %w", p.Title, err)
			}
			line.Color, line.Width = tint, 1.5
			chart.Add(line)
		}
		for _, point := range curve.points {
			highest = max(highest, point.F)
		}
	}
	chart.X.Min, chart.X.Max = float64(d.from.span.Start.Unix()), float64(d.from.span.End.Unix())
	chart.Y.Min, chart.Y.Max = 0, highest*1.05
	if highest == 0 {
		chart.Y.Max = 1
	}
	chart.Draw(draw.Crop(c, inset, -2*inset, below, -titleSize-2*inset))
	return nil
}

// ticks are the default ones, written in the unit.
func ticks(low, high float64, unit string) []plot.Tick {
	all := plot.DefaultTicks{}.Ticks(low, high)
	for i := range all {
		if all[i].Label != "" {
			all[i].Label = format(all[i].Value, unit)
		}
	}
	return all
}

// unbroken divides points where some are missing between them. A single one is drawn as a short line.
func unbroken(points []promql.FPoint, step time.Duration) []plotter.XYs {
	var rows []plotter.XYs
	for i, point := range points {
		if i == 0 || point.T-points[i-1].T > step.Milliseconds()*3/2 {
			rows = append(rows, plotter.XYs{})
		}
		last := &rows[len(rows)-1]
		*last = append(*last, plotter.XY{X: float64(point.T) / 1000, Y: point.F})
	}
	for i, row := range rows {
		if len(row) == 1 {
			rows[i] = append(row, plotter.XY{X: row[0].X + step.Seconds()/2, Y: row[0].Y})
		}
	}
	return rows
}

// legend names the curves below the chart, and gives the height that it took.
func (d *drawing) legend(c draw.Canvas, curves []curve) vg.Length {
	s := style(smallSize, ink, sans)
	const mark, lineHeight = 10, smallSize + 4
	at := vg.Point{X: c.Min.X + inset, Y: c.Min.Y + inset/2 + (legendLines-1)*lineHeight}
	line := 1
	for i, curve := range curves {
		width := mark + 4 + s.Width(curve.legend) + 10
		if at.X+width > c.Max.X-inset && at.X > c.Min.X+inset {
			if line == legendLines {
				c.FillText(s, at, fmt.Sprintf("+%d", len(curves)-i))
				break
			}
			line++
			at = vg.Point{X: c.Min.X + inset, Y: at.Y - lineHeight}
		}
		c.StrokeLine2(draw.LineStyle{Color: palette[i%len(palette)], Width: 3}, at.X, at.Y+3, at.X+mark, at.Y+3)
		c.FillText(s, vg.Point{X: at.X + mark + 4, Y: at.Y}, curve.legend)
		at.X += width
	}
	return legendLines*lineHeight + inset/2
}
