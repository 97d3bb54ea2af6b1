// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ServeNothing is a bind address that switches an endpoint off.
const ServeNothing = "0"

// endpoint is one address that the process listens on.
type endpoint struct {
	path *field.Path
	text string
	host string
	port int
}

func validateServer(s *Server, path *field.Path) field.ErrorList {
	port := int(*s.WebhookPort)
	webhook := endpoint{path.Child("webhookPort"), strconv.Itoa(port), s.WebhookHost, port}
	errs := asErrors(webhook.path, port, validation.IsValidPortNum(port))
	if s.WebhookHost != "" {
		errs = append(errs, validateHost(path.Child("webhookHost"), s.WebhookHost)...)
	}
	errs = append(errs, validateBinds(path, s.MetricsBindAddress, s.HealthProbeBindAddress, webhook)...)
	return append(errs, validateWebhookURL(path.Child("webhookURL"), s.WebhookURL)...)
}

// validateBinds checks the bind addresses of a process, and that no two of its endpoints share a port.
func validateBinds(path *field.Path, metrics, health string, endpoints ...endpoint) field.ErrorList {
	var errs field.ErrorList
	for _, bind := range []struct{ name, address string }{{"metricsBindAddress", metrics}, {"healthProbeBindAddress", health}} {
		found, problems := parseBindAddress(path.Child(bind.name), bind.address)
		errs = append(errs, problems...)
		if len(problems) == 0 {
			endpoints = append(endpoints, found)
		}
	}
	return append(errs, validateNoSharedPort(endpoints)...)
}

// validateWebhookURL follows what the API server takes as clientConfig.url, without a path, which is the webhook's.
func validateWebhookURL(path *field.Path, text string) field.ErrorList {
	if text == "" {
		return nil
	}
	found, err := url.Parse(text)
	if err != nil || found.Scheme != "https" || found.Host == "" || text != "https://"+found.Host {
		return field.ErrorList{field.Invalid(path, text, `must have the form "https://host:port", with nothing behind it`)}
	}
	return nil
}

// parseBindAddress reads "host:port", where an empty host is every address and port 0 is any free one.
func parseBindAddress(path *field.Path, address string) (endpoint, field.ErrorList) {
	if address == ServeNothing {
		return endpoint{}, nil
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return endpoint{}, field.ErrorList{field.Invalid(path, address,
			fmt.Sprintf("must have the form \"host:port\" or \":port\", or be %q for none", ServeNothing))}
	}
	var errs field.ErrorList
	if host != "" {
		errs = validateHost(path, host)
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		errs = append(errs, field.Invalid(path, address, "the port must be a number between 0 and 65535"))
	}
	return endpoint{path, address, host, port}, errs
}

func validateHost(path *field.Path, host string) field.ErrorList {
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		return field.ErrorList{field.Invalid(path, host, "must be an IP address of this host, localhost, or empty for every address")}
	}
	return nil
}

// validateNoSharedPort finds a port that two endpoints would listen on.
func validateNoSharedPort(endpoints []endpoint) field.ErrorList {
	var errs field.ErrorList
	for i, later := range endpoints {
		for _, earlier := range endpoints[:i] {
			if later.port == 0 || later.port != earlier.port {
				continue
			}
			if later.host == earlier.host || isEveryAddress(later.host) || isEveryAddress(earlier.host) {
				errs = append(errs, field.Invalid(later.path, later.text, "is the port of "+earlier.path.String()+" too; give each its own"))
			}
		}
	}
	return errs
}

func isEveryAddress(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "" || (err == nil && address.IsUnspecified())
}
