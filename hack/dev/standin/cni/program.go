// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// headerTimeout bounds the headers of a request of the program's.
const headerTimeout = 10 * time.Second

// addByProgram is CNI ADD by the program itself.
func (w *whereabouts) addByProgram(ctx context.Context, c call, ipam *wbkubernetes.KubernetesIPAM) ([]string, error) {
	output, err := w.execute(ctx, "ADD", w.options.AddTimeout, c, ipam.Namespace)
	if err != nil {
		return nil, err
	}
	var result struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	}
	if err := json.Unmarshal(output, &result); err != nil {
		return nil, fmt.Errorf("the result of whereabouts' program: %w", err)
	}
	var addresses []string
	for _, ip := range result.IPs {
		addresses = append(addresses, ip.Address.Addr().String())
	}
	return addresses, nil
}

// delByProgram is CNI DEL by the program itself. It drops the error of the
// deallocation, so that pools which have kept an entry too many tell of one.
// whereabouts 0.8 does not look at the interface of an entry.
func (w *whereabouts) delByProgram(ctx context.Context, c call, ipam *wbkubernetes.KubernetesIPAM) (dropped, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.DelTimeout) // the limit of its own is longer
	defer cancel()
	before, beforeErr := recorded(ipam)
	_, err = w.execute(ctx, "DEL", w.options.DelTimeout, c, ipam.Namespace)
	if ctx.Err() != nil {
		return context.Cause(ctx), nil
	}
	if err != nil {
		return nil, err
	}
	after, afterErr := recorded(ipam)
	if err := errors.Join(beforeErr, afterErr); err != nil {
		return err, nil
	}
	if most := max(0, before-len(ipam.Config.IPRanges)); after > most {
		return fmt.Errorf("the pools have %d entries of sandbox %s: expected at most %d after DEL of interface %s", after, c.sandboxID, most, c.interfaceName), nil
	}
	return nil, nil
}

// recorded counts the entries of a sandbox.
func recorded(ipam *wbkubernetes.KubernetesIPAM) (n int, err error) {
	pools, err := ipam.Client.ListIPPools()
	if err != nil {
		return 0, err
	}
	for _, pool := range pools {
		for _, entry := range pool.Allocations() {
			if entry.ContainerID == ipam.ContainerID {
				n++
			}
		}
	}
	return n, nil
}

// execute runs the program as a runtime does, and returns what it wrote.
func (w *whereabouts) execute(ctx context.Context, command string, limit time.Duration, c call, namespace string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	server, closeProxy, err := serveProxy(ctx, w.identity.Load())
	if err != nil {
		return nil, err
	}
	defer closeProxy()
	kubeconfig, err := w.writeKubeconfig(server, namespace)
	if err != nil {
		return nil, err
	}
	defer os.Remove(kubeconfig)
	input, err := hermetic(c.config, w.flatFile)
	if err == nil {
		input, err = completed(input, c, kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	program := exec.CommandContext(ctx, w.options.Program)
	program.Env = []string{
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + c.sandboxID, "CNI_IFNAME=" + c.interfaceName, "CNI_PATH=" + filepath.Dir(w.options.Program),
		"CNI_NETNS=/var/run/netns/" + c.sandboxID, "CNI_NETNS_OVERRIDE=true", "CNI_ARGS=" + c.arguments(),
	}
	program.Stdin = bytes.NewReader(input)
	output, err := program.Output()
	if err != nil { // what went wrong is the result
		return nil, fmt.Errorf("whereabouts' program: %w: %s", err, bytes.TrimSpace(output))
	}
	return output, nil
}

// completed names the network, as a runtime does, and the kubeconfig.
func completed(input []byte, c call, kubeconfig string) ([]byte, error) {
	var plugin map[string]any
	if err := json.Unmarshal(input, &plugin); err != nil {
		return nil, err
	}
	if name, _ := plugin["name"].(string); name == "" {
		plugin["name"] = c.interfaceName
	}
	ipam, isObject := plugin["ipam"].(map[string]any)
	if !isObject {
		return nil, errors.New("the plugin's configuration has no ipam object")
	}
	ipam["kubernetes"] = map[string]string{"kubeconfig": kubeconfig}
	return json.Marshal(plugin)
}

func (w *whereabouts) writeKubeconfig(server, namespace string) (path string, err error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["way"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["way"] = &clientcmdapi.Context{Cluster: "way", Namespace: namespace}
	config.CurrentContext = "way"
	file, err := os.CreateTemp(w.options.StateDir, "program-*.kubeconfig")
	if err != nil {
		return "", fmt.Errorf("the kubeconfig of whereabouts' program: %w", err)
	}
	return file.Name(), errors.Join(file.Close(), clientcmd.WriteToFile(*config, file.Name()))
}

// serveProxy gives a process the way to the API server that an identity has, with
// everything that can be done to it.
func serveProxy(ctx context.Context, identity *rest.Config) (server string, stop func(), err error) {
	target, _, err := rest.DefaultServerUrlFor(identity)
	if err != nil {
		return "", nil, err
	}
	transport, err := rest.TransportFor(identity)
	if err != nil {
		return "", nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	proxy := &http.Server{ReadHeaderTimeout: headerTimeout, Handler: &httputil.ReverseProxy{
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport: transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // the connection breaks, as on the way
		},
	}}
	go func() { _ = proxy.Serve(listener) }() // always an error: that it was closed
	return "http://" + listener.Addr().String(), func() { _ = proxy.Close() }, nil
}
