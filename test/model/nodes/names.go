// SPDX-License-Identifier: Apache-2.0

package nodes

import "fmt"

func name(machine uint8) string { return string(rune('A' + machine)) }

func (q Query) String() string {
	purpose := "Rewrite"
	if q.Release {
		purpose = "Release"
	}
	if q.OutOfService {
		purpose += ", out-of-service"
	}
	return fmt.Sprintf("epoch %d, %s", q.Epoch, purpose)
}

func (r Response) String() string {
	switch {
	case r.Epoch == 0:
		return "no response"
	case r.Ready:
		return fmt.Sprintf("ReadyForRelease to epoch %d", r.Epoch)
	}
	return fmt.Sprintf("DoNotRelease to epoch %d", r.Epoch)
}
