// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// AnsweredCondition is the type of a record's condition with which the agent of its node says, by status False and a
	// reason, why it gives no answer to a mark. It is absent until there is something to say, and True once the agent answers again.
	AnsweredCondition = "Answered"
)
