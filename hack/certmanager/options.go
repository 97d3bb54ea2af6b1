// SPDX-License-Identifier: Apache-2.0

//go:build !certmanager_1_19 && !certmanager_1_20

package main

import (
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
)

// certificateOptions are cert-manager's defaults.
func certificateOptions() controller.CertificateOptions {
	return controller.CertificateOptions{
		CopiedAnnotationPrefixes:                 copiedAnnotations,
		CertificateRequestMinimumBackoffDuration: time.Hour,
		CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
	}
}
