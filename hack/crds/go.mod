module github.com/holdfast-dev/holdfast/hack/crds

go 1.26.0

require (
	github.com/aws/amazon-vpc-resource-controller-k8s v1.6.3
	github.com/cilium/cilium v1.20.2
	github.com/k8stopologyawareschedwg/noderesourcetopology-api v0.1.2
	github.com/openshift/api v0.0.0-20240904015708-69df64132c91
	github.com/projectcalico/calico v1.11.0-cni-plugin.0.20250813170300-a0db560f0520
	github.com/prometheus-operator/prometheus-operator v0.92.1
)
