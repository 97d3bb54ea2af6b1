// SPDX-License-Identifier: Apache-2.0

package bench

// apiServerArguments are those that an experiment needs.
func (w *world) apiServerArguments(needs) (map[string]string, error) { return nil, nil }
