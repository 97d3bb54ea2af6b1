// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	certificateEnd = gaugesAtScrape("webhook_certificate_expiration_timestamp_seconds",
		"End of the certificate that the webhook server of this process presents, in seconds since 1970. A certificate that was renewed and not read again shows here.")

	// CertificateEnd is when the certificate of the webhook server expires; the zero time has no series.
	CertificateEnd = register(&AtScrape[time.Time]{
		gauges: []*prometheus.GaugeVec{certificateEnd},
		fill: func(end time.Time) {
			if !end.IsZero() {
				certificateEnd.WithLabelValues().Set(float64(end.Unix()))
			}
		},
	})
)
