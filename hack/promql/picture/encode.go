// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"image"
	"image/color"
	"image/png"
	"io"
	"slices"
)

// colorsAtMost is how many a PNG with a palette can have.
const colorsAtMost = 256

// encode writes a PNG of the most frequent colors, of which a chart has few: it is a third as large.
func encode(out io.Writer, drawn image.Image) error {
	bounds := drawn.Bounds()
	frequency := map[color.RGBA]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			frequency[at(drawn, x, y)]++
		}
	}
	tints := paletteOf(frequency)
	indexes := map[color.RGBA]uint8{}
	for tint := range frequency {
		indexes[tint] = uint8(tints.Index(tint)) // #nosec G115 -- there are 256 at most
	}
	reduced := image.NewPaletted(bounds, tints)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			reduced.SetColorIndex(x, y, indexes[at(drawn, x, y)])
		}
	}
	return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(out, reduced)
}

func at(drawn image.Image, x, y int) color.RGBA {
	r, g, b, a := drawn.At(x, y).RGBA()
	return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), uint8(a >> 8)} // #nosec G115 -- they have 16 bits
}

// paletteOf are the most frequent colors, always in the same order.
func paletteOf(frequency map[color.RGBA]int) color.Palette {
	all := make([]color.RGBA, 0, len(frequency))
	for tint := range frequency {
		all = append(all, tint)
	}
	slices.SortFunc(all, func(x, y color.RGBA) int {
		return cmp.Or(cmp.Compare(frequency[y], frequency[x]), cmp.Compare(x.R, y.R), cmp.Compare(x.G, y.G), cmp.Compare(x.B, y.B), cmp.Compare(x.A, y.A))
	})
	tints := make(color.Palette, 0, colorsAtMost)
	for _, tint := range all[:min(len(all), colorsAtMost)] {
		tints = append(tints, tint)
	}
	return tints
}
