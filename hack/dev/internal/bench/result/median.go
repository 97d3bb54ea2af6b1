// SPDX-License-Identifier: Apache-2.0

package result

import (
	"math"
	"slices"
)

const confidence = 0.95

// Median is the median of the values with its interval by order statistics: the narrowest pair of values, as far from the lowest as from the
// highest, between which the median lies with a confidence of 95 % or more. Fewer than six values have no such pair; all of them are the interval.
func Median(values []float64) Interval {
	n := len(values)
	if n == 0 {
		return Interval{Median: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := (sorted[(n-1)/2] + sorted[n/2]) / 2
	at := rank(n)
	return Interval{Median: middle, Low: sorted[at], High: sorted[n-1-at]}
}

// Percentile is the value below which a share of the values lies, by the nearest rank.
func Percentile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// rank is the index of the lower end. The median lies below the value at index i with the probability that at most i of n values lie below the
// median, each with a probability of one half.
func rank(n int) int {
	below, at := 0.0, 0
	term := math.Pow(0.5, float64(n))
	for i := 0; i < n/2; i++ {
		below += term
		if 2*below > 1-confidence {
			break
		}
		at = i
		term *= float64(n-i) / float64(i+1)
	}
	return at
}
