// SPDX-License-Identifier: Apache-2.0

package cluster

type guard struct{}
