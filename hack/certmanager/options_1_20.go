// SPDX-License-Identifier: Apache-2.0

//go:build certmanager_1_20

package main

import (
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
)

// certificateOptions are the defaults of cert-manager 1.20, where the longest wait cannot be set.
func certificateOptions() controller.CertificateOptions {
	return controller.CertificateOptions{
		CopiedAnnotationPrefixes:                 copiedAnnotations,
		CertificateRequestMinimumBackoffDuration: time.Hour,
	}
}
