// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxConcurrency is far above what any cluster needs and below what exhausts the process.
	maxConcurrency = 1000
	// minSweepInterval keeps the sweep, which pages all pods of the cluster, from being a load of its own.
	minSweepInterval = time.Second
	// maxDeletesPerSecond is far above what a cluster's nodes are replaced at.
	maxDeletesPerSecond = 100
)

// Validate lists every mistake in a configuration that has its defaults.
func Validate(c *ManagerConfiguration) field.ErrorList {
	errs := validateType(c.TypeMeta, ManagerConfigurationKind)
	errs = append(errs, oneOf(field.NewPath("mode"), c.Mode, ModeGuard, ModeShadow)...)
	errs = append(errs, oneOf(field.NewPath("evidence"), c.Evidence, EvidenceKubelet, EvidenceAgent)...)
	errs = append(errs, validateProtection(&c.Protection, field.NewPath("protection"))...)
	errs = append(errs, validateWhereabouts(&c.Whereabouts, field.NewPath("whereabouts"))...)
	errs = append(errs, validateUnsafeReleases(&c.UnsafeReleases, field.NewPath("unsafeReleases"))...)
	errs = append(errs, oneOf(field.NewPath("audit", "mode"), c.Audit.Mode, AuditModeRepair, AuditModeReport)...)
	errs = append(errs, asErrors(field.NewPath("orphans", "maxQueries"), *c.Orphans.MaxQueries, validation.IsInRange(int(*c.Orphans.MaxQueries), 1, int(DefaultMaxQueries)))...)
	errs = append(errs, atLeast(field.NewPath("handshakes", "responseWithin"), c.Handshakes.ResponseWithin, minResponseWithin)...)
	errs = append(errs, validateNodeResources(&c.NodeResources, field.NewPath("nodeResources"))...)
	errs = append(errs, validateDelays(&c.Delays, field.NewPath("delays"))...)
	errs = append(errs, validateServer(&c.Server, field.NewPath("server"))...)
	return append(errs, validateController(&c.Controller, field.NewPath("controller"))...)
}

func validateType(t metav1.TypeMeta, kind string) field.ErrorList {
	return append(oneOf(field.NewPath("apiVersion"), t.APIVersion, GroupVersion.String()), oneOf(field.NewPath("kind"), t.Kind, kind)...)
}

func validateProtection(s *Protection, path *field.Path) field.ErrorList {
	errs := validateEach(s.ExcludedNamespaces, path.Child("excludedNamespaces"), validation.IsDNS1123Label)
	return append(errs, asErrors(path.Child("multusNamespace"), s.MultusNamespace, validation.IsDNS1123Label(s.MultusNamespace))...)
}

func validateWhereabouts(w *Whereabouts, path *field.Path) field.ErrorList {
	if !*w.Enabled {
		return field.ErrorList{field.Invalid(path.Child("enabled"), false,
			"whereabouts is the only backend; without one the manager cannot see which addresses a pod holds and would have nothing to guard")}
	}
	if len(w.Namespaces) == 0 {
		return field.ErrorList{field.Required(path.Child("namespaces"),
			"name at least one namespace that holds IPPools, or leave the list out for "+DefaultWhereaboutsNamespace)}
	}
	return validateEach(w.Namespaces, path.Child("namespaces"), validation.IsDNS1123Label)
}

func validateUnsafeReleases(u *UnsafeReleases, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("mode"), u.Mode, ReleaseModeOff, ReleaseModeWarn, ReleaseModeDeny)
	if u.Mode == ReleaseModeDeny && len(u.DaemonSets)+len(u.CNIUsers) == 0 {
		errs = append(errs, field.Required(path.Child("daemonSets"),
			"mode Deny with neither daemonSets nor cniUsers refuses CNI DEL itself, on every node"))
	}
	errs = append(errs, validateEach(u.DaemonSets, path.Child("daemonSets"), isNamespacedName)...)
	return append(errs, validateEach(u.CNIUsers, path.Child("cniUsers"), isUserName)...)
}

func validateNodeResources(n *NodeResources, path *field.Path) field.ErrorList {
	errs := atLeast(path.Child("sweepInterval"), n.SweepInterval, minSweepInterval)
	if rate := *n.DeletesPerSecond; !(rate > 0 && rate <= maxDeletesPerSecond) {
		errs = append(errs, field.Invalid(path.Child("deletesPerSecond"), rate, fmt.Sprintf("must be above 0 and at most %d", maxDeletesPerSecond)))
	}
	for i, name := range n.Presets {
		errs = append(errs, oneOf(path.Child("presets").Index(i), name, NodeResourcePresets()...)...)
	}
	return errs
}

func validateDelays(d *Delays, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, atLeast(path.Child("releaseDelay"), d.ReleaseDelay, 0)...)
	errs = append(errs, atLeast(path.Child("gracePeriodSlack"), d.GracePeriodSlack, 0)...)
	errs = append(errs, atLeast(path.Child("nodeGoneDelay"), d.NodeGoneDelay, 0)...)
	if d.SandboxCreationMax.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("sandboxCreationMax"), d.SandboxCreationMax.Duration.String(),
			"must be greater than 0s: an IPAM records an address before the runtime lists the sandbox"))
	}
	return append(errs, oneOf(path.Child("nodeGoneAction"), d.NodeGoneAction, NodeGoneRelease, NodeGoneHold)...)
}

func validateController(c *Controller, path *field.Path) field.ErrorList {
	errs := asErrors(path.Child("concurrency"), *c.Concurrency, validation.IsInRange(int(*c.Concurrency), 1, maxConcurrency))
	errs = append(errs, atLeast(path.Child("sweepInterval"), c.SweepInterval, minSweepInterval)...)
	if *c.QPS < 0 {
		errs = append(errs, field.Invalid(path.Child("qps"), *c.QPS, "must be 0 or more; 0 sets no limit in the client"))
	}
	switch {
	case *c.Burst < 0:
		errs = append(errs, field.Invalid(path.Child("burst"), *c.Burst, "must be 0 or more"))
	case *c.Burst > 0 && *c.QPS == 0:
		errs = append(errs, field.Invalid(path.Child("burst"), *c.Burst, "has no effect without qps; set qps too, or leave burst out"))
	}
	return errs
}

// validateEach checks every element of a list, and that none is there twice.
func validateEach(values []string, path *field.Path, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, value := range values {
		errs = append(errs, asErrors(path.Index(i), value, check(value))...)
		if seen.Has(value) {
			errs = append(errs, field.Duplicate(path.Index(i), value))
		}
		seen.Insert(value)
	}
	return errs
}

func isNamespacedName(value string) []string {
	namespace, name, found := strings.Cut(value, "/")
	if !found {
		return []string{`must have the form "namespace/name"`}
	}
	return append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(name)...)
}

func isUserName(value string) []string {
	if value == "" || strings.TrimSpace(value) != value {
		return []string{"must be a user name as the API server knows it, with no space around it"}
	}
	if strings.Contains(value, "*") {
		return []string{"must be one user name; a pattern matches no user"}
	}
	return nil
}

// oneOf returns an error unless the value is one of the valid ones.
func oneOf[T ~string](path *field.Path, value T, valid ...T) field.ErrorList {
	if slices.Contains(valid, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, valid)}
}

func atLeast(path *field.Path, value *metav1.Duration, least time.Duration) field.ErrorList {
	if value.Duration >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.Duration.String(), "must be "+least.String()+" or more")}
}

func asErrors[T any](path *field.Path, value T, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, message := range messages {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}
