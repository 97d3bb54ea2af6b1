// SPDX-License-Identifier: Apache-2.0

// Package list shows the records of Holdfast in one line each, with what each waits for.
package list
