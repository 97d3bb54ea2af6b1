// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"context"
	"fmt"
	"image/color"
	"io"
	"time"

	"github.com/prometheus/prometheus/storage"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/holdfast-dev/holdfast/hack/promql/recording"
)

// Sizes, in points. The picture has a little more than one pixel for each.
const (
	columns     = 24
	columnWidth = 56
	rowHeight   = 30
	heading     = 52
	gap         = 6
	inset       = 8
	titleSize   = 12
	smallSize   = 10
	figureSize  = 26
	dotsPerInch = 96
)

var (
	page   = color.RGBA{0xf4, 0xf5, 0xf6, 0xff}
	white  = color.RGBA{0xff, 0xff, 0xff, 0xff}
	ink    = color.RGBA{0x24, 0x29, 0x2e, 0xff}
	faint  = color.RGBA{0x6a, 0x73, 0x7d, 0xff}
	border = color.RGBA{0xd5, 0xd9, 0xde, 0xff}
	// palette are the colors of curves, one after the other.
	palette = []color.RGBA{
		{0x3f, 0x9c, 0x4b, 0xff}, {0xd9, 0xa4, 0x04, 0xff}, {0x33, 0x70, 0xc4, 0xff}, {0xe0, 0x80, 0x20, 0xff}, {0xc4, 0x2f, 0x3f, 0xff},
		{0x70, 0x4d, 0xb5, 0xff}, {0x17, 0x8c, 0x8c, 0xff}, {0xb0, 0x4a, 0x94, 0xff}, {0x7a, 0x5c, 0x3e, 0xff}, {0x5a, 0x6b, 0x7b, 0xff},
	}
)

// drawing is a picture in the making.
type drawing struct {
	canvas draw.Canvas
	from   *evaluator
}

// Draw draws a dashboard as a PNG from what a storage has of a span of time.
func Draw(ctx context.Context, d *Dashboard, data storage.Queryable, span recording.Span, out io.Writer) error {
	rows := 0
	for i := range d.Panels {
		rows = max(rows, d.Panels[i].GridPos.Y+d.Panels[i].GridPos.H)
	}
	image := vgimg.NewWith(vgimg.UseWH(columns*columnWidth+gap, vg.Length(heading+rows*rowHeight+gap)), vgimg.UseDPI(dotsPerInch), vgimg.UseBackgroundColor(page))
	drawn := &drawing{canvas: draw.New(image), from: newEvaluator(data, span)}
	drawn.write(d.Title, 20, ink, vg.Point{X: gap + inset, Y: drawn.canvas.Max.Y - 24}, font.Font{Variant: "Sans", Weight: 3})
	drawn.write(fmt.Sprintf("Drawn by hack/promql, not by Grafana, from what real processes exposed from %s to %s UTC, scraped every %s.",
		span.Start.Format("2006-01-02 15:04:05"), span.End.Format("15:04:05"), span.Interval.Round(time.Second/10)), smallSize, faint, vg.Point{X: gap + inset, Y: drawn.canvas.Max.Y - 42}, sans)
	for i := range d.Panels {
		if err := drawn.panel(ctx, &d.Panels[i]); err != nil {
			return err
		}
	}
	return encode(out, image.Image())
}

var (
	sans = font.Font{Variant: "Sans"}
	bold = font.Font{Variant: "Sans", Weight: 3}
)

func style(size vg.Length, tint color.Color, face font.Font) draw.TextStyle {
	face.Typeface, face.Size = plot.DefaultFont.Typeface, size
	return draw.TextStyle{Color: tint, Font: face, Handler: text.Plain{Fonts: font.DefaultCache}}
}

func (d *drawing) write(line string, size vg.Length, tint color.Color, at vg.Point, face font.Font) {
	d.canvas.FillText(style(size, tint, face), at, line)
}

// place is the part of the picture that a panel has.
func (d *drawing) place(g GridPos) draw.Canvas {
	left, top := vg.Length(g.X*columnWidth+gap), vg.Length(heading+g.Y*rowHeight)
	at := vg.Rectangle{
		Min: vg.Point{X: left, Y: d.canvas.Max.Y - top - vg.Length(g.H*rowHeight) + gap},
		Max: vg.Point{X: left + vg.Length(g.W*columnWidth) - gap, Y: d.canvas.Max.Y - top},
	}
	return draw.Canvas{Canvas: d.canvas.Canvas, Rectangle: at}
}

func (d *drawing) panel(ctx context.Context, p *Panel) error {
	c := d.place(p.GridPos)
	if p.Type == typeRow {
		d.write(p.Title, titleSize+2, ink, vg.Point{X: c.Min.X + inset, Y: c.Min.Y + inset}, bold)
		return nil
	}
	curves, err := d.from.curves(ctx, p)
	if err != nil {
		return err
	}
	box(c, white)
	switch {
	case len(curves) == 0:
		d.title(c, p, ink)
		d.middle(c, "No data", smallSize+2, faint)
		return nil
	case p.Type == typeFigure:
		return d.figure(c, p, curves)
	case p.Type == typeBars:
		return d.bars(c, p, curves)
	default:
		return d.series(c, p, curves)
	}
}

func box(c draw.Canvas, fill color.Color) {
	corners := []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}}
	c.FillPolygon(fill, corners)
	c.StrokeLines(draw.LineStyle{Color: border, Width: 1}, append(corners, c.Min))
}

func (d *drawing) title(c draw.Canvas, p *Panel, tint color.Color) {
	d.write(p.Title, titleSize, tint, vg.Point{X: c.Min.X + inset, Y: c.Max.Y - titleSize - inset/2}, bold)
}

func (d *drawing) middle(c draw.Canvas, line string, size vg.Length, tint color.Color) {
	s := style(size, tint, bold)
	at := vg.Point{X: c.Center().X - s.Width(line)/2, Y: c.Center().Y - size/2 - inset/2}
	c.FillText(s, at, line)
}
