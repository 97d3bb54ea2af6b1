// SPDX-License-Identifier: Apache-2.0

//go:build certmanager_1_19

package main

import (
	"github.com/cert-manager/cert-manager/pkg/controller"
)

// certificateOptions are the defaults of cert-manager 1.19, where no wait can be set.
func certificateOptions() controller.CertificateOptions {
	return controller.CertificateOptions{
		CopiedAnnotationPrefixes: copiedAnnotations,
	}
}
