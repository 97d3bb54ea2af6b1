// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/cmd/internal/program"
	"github.com/holdfast-dev/holdfast/internal/nodewait"
	"github.com/holdfast-dev/holdfast/internal/served"
)

const (
	// nodeNameVariable holds the name of the pod's node (fieldRef spec.nodeName).
	nodeNameVariable = "NODE_NAME"

	defaultWait = 10 * time.Minute
)

const waitDescription = `Wait-node-resource is an init container of a CNI agent, or of any agent that reads an object
of its node. It exits with 0 once every object that the agent will read carries the UID of
the live Node and is not being deleted. So the agent never reads an object that was filled
for an earlier Node of the same name.

It reads from the API server, never from a cache: the objects first and the Node last. It
waits while something cannot be read. Each new state is one line on standard error, which
is repeated every minute.

With --machine-id-file the Node must also show this machine's ID. That catches a machine
that starts while its predecessor's Node object is still there and has not been written by
the new kubelet. Once the new kubelet has written over the old Node, its UID stays, and so
does what carries that UID.

The account needs these verbs; discovery is open to every account:
  nodes                                get, watch
  noderesourcepolicies.holdfast.dev    get           (with --policy)
  the resource                         get, watch    (with --namespace, or cluster-scoped)
                                       list, watch   (in all namespaces, or where the policy
                                                     finds an object by its content)
Without watch it is slower, and prints that. Where an object is found by a field that the API
server cannot select by, every look reads all objects: give --name then, if you can.

Exit codes:
  0  ready
  1  wrong flags, or another error that waiting does not mend
  3  the time-out is over; the last line names what was missing, and what to do
  4  stopped by a signal`

const waitExample = `  # As an init container (spec.nodeName as $NODE_NAME), by a NodeResourcePolicy
  manager wait-node-resource --policy nodenetworkconfigs --namespace kube-system

  # Without a policy, for an agent that creates its own object
  manager wait-node-resource --resource ciliumnodes.v2.cilium.io --if-missing proceed

  # The UID of the Node is in an annotation
  manager wait-node-resource --resource hostsubnets.network.openshift.io \
    --uid-annotation pod.network.openshift.io/node-uid

  # At a shell, for one node, five minutes at most
  manager wait-node-resource --policy nodenetworkconfigs --namespace kube-system \
    --node aks-nodepool1-0 --timeout 5m --kubeconfig ~/.kube/config`

type waitOptions struct {
	policy, resource, uidAnnotation string
	node, namespace, name           string
	ifMissing                       string
	machineIDFile                   string
	timeout                         time.Duration
	kubeconfig                      string
}

func newWaitNodeResourceCommand() *cobra.Command {
	o := &waitOptions{}
	cmd := &cobra.Command{
		Use:     "wait-node-resource",
		Short:   "Wait until a node's object carries the UID of the live Node",
		Long:    waitDescription,
		Example: waitExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *waitOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.policy, "policy", "", "`name` of the NodeResourcePolicy that defines which resource it is and where an object has its node's name and UID")
	flags.StringVar(&o.resource, "resource", "", "the resource without a policy: `plural.version.group`, or plural.group for the version that the API server prefers")
	flags.StringVar(&o.uidAnnotation, "uid-annotation", "", "with --resource: `key` of the annotation with the Node's UID; otherwise the owner references have it")
	flags.StringVar(&o.node, "node", os.Getenv(nodeNameVariable), "`name` of the node; otherwise $"+nodeNameVariable)
	flags.StringVar(&o.namespace, "namespace", "", "`namespace` of the object; otherwise all of them, or none for a cluster-scoped resource")
	flags.StringVar(&o.name, "name", "", "`name` of the object; otherwise the node's name, or what the policy's node name finds")
	flags.StringVar(&o.ifMissing, "if-missing", string(nodewait.Wait), "`wait` for an object that is not there, or proceed: the agent creates it")
	flags.StringVar(&o.machineIDFile, "machine-id-file", "", "`file` with this machine's ID, for example /etc/machine-id of the host; the Node has to show the same")
	flags.DurationVar(&o.timeout, "timeout", defaultWait, "how long to wait; 0 for ever")
	program.AddKubeconfigFlag(flags, &o.kubeconfig)
}

func (o *waitOptions) run(ctx context.Context, out, errOut io.Writer) error {
	options, err := o.complete()
	if err != nil {
		return err
	}
	restConfig, err := program.RESTConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	restConfig.WarningHandler = rest.NoWarnings{}
	if options.Client, err = dynamic.NewForConfig(restConfig); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(restConfig)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	options.Discovery = served.Client{Client: discoveryClient.RESTClient()}
	options.Out, options.Err = out, errOut
	return nodewait.Until(ctx, options)
}

// complete checks the flags. The error names every mistake.
func (o *waitOptions) complete() (nodewait.Options, error) {
	options := nodewait.Options{
		Policy: o.policy, UIDAnnotation: o.uidAnnotation,
		Node: o.node, Namespace: o.namespace, Name: o.name,
		IfMissing: nodewait.IfMissing(o.ifMissing), Timeout: o.timeout,
	}
	var mistakes []error
	if (o.policy == "") == (o.resource == "") {
		mistakes = append(mistakes, errors.New("give --policy or --resource: one of them defines the object to wait for"))
	}
	if o.uidAnnotation != "" && o.resource == "" {
		mistakes = append(mistakes, errors.New("--uid-annotation needs --resource: a policy itself defines where the UID is"))
	}
	if o.node == "" {
		mistakes = append(mistakes, fmt.Errorf("give --node, or set $%s from the pod's spec.nodeName", nodeNameVariable))
	}
	if options.IfMissing != nodewait.Wait && options.IfMissing != nodewait.Proceed {
		mistakes = append(mistakes, fmt.Errorf("--if-missing is %q: expected %s or %s", o.ifMissing, nodewait.Wait, nodewait.Proceed))
	}
	if o.timeout < 0 {
		mistakes = append(mistakes, fmt.Errorf("--timeout is %s: expected a positive duration, or 0 for ever", o.timeout))
	}
	var err error
	if o.resource != "" {
		options.Resource, err = parseResource(o.resource)
		mistakes = append(mistakes, err)
	}
	options.MachineID, err = readMachineID(o.machineIDFile)
	return options, errors.Join(append(mistakes, err)...)
}

var versionPattern = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]*)?$`)

// parseResource reads PLURAL.GROUP and PLURAL.VERSION.GROUP. What looks like a version is one.
func parseResource(text string) (schema.GroupVersionResource, error) {
	plural, group, _ := strings.Cut(text, ".")
	resource := schema.GroupVersionResource{Group: group, Resource: plural}
	if version, rest, _ := strings.Cut(group, "."); versionPattern.MatchString(version) {
		resource.Version, resource.Group = version, rest
	}
	if resource.Resource == "" || resource.Group == "" {
		return resource, fmt.Errorf("--resource is %q: expected PLURAL.GROUP or PLURAL.VERSION.GROUP, for example ciliumnodes.v2.cilium.io", text)
	}
	return resource, nil
}

func readMachineID(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--machine-id-file: %w", err)
	}
	id := strings.TrimSpace(string(content))
	if id == "" {
		return "", fmt.Errorf("--machine-id-file: %s is empty: mount the host's", path)
	}
	return id, nil
}
