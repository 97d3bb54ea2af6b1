// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// callTimeout bounds a call to the API server inside a round, so that the sequence of lists does not break.
const callTimeout = 10 * time.Second

// MachineFiles are the paths of the files with the IDs of the machine.
type MachineFiles struct {
	MachineID, BootID, SystemUUID string
}

// self is the identity of the agent: the Node for which it may respond.
type self struct {
	nodeUID types.UID
	podUID  types.UID
	// bootID is the boot of the machine; if nodeUID is set, also that of the Node.
	bootID string
	// reason and message say why the agent may respond for no Node; nodeUID is empty then.
	reason  v1alpha1.Reason
	message string
	// nodeObject is the UID of the live Node object, also if the agent may not respond for it.
	nodeObject types.UID
}

// identity reads the identity of the agent live. It is safe for concurrent use.
type identity struct {
	client   client.Client
	nodeName string
	files    MachineFiles
	clock    clock.PassiveClock

	mu   sync.Mutex
	last self
	at   time.Time
}

// known is the identity that was read last, and when that read began; zero before the first.
func (i *identity) known() (self, time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last, i.at
}

// fresh reads the identity.
func (i *identity) fresh(ctx context.Context) (self, error) {
	began := i.clock.Now()
	found, err := i.read(ctx)
	if err != nil {
		return self{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last, i.at = found, began
	return found, nil
}

func (i *identity) read(ctx context.Context) (self, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	token, err := i.token(ctx)
	if err != nil {
		return self{}, err
	}
	host, err := i.files.read()
	if err != nil {
		return self{}, err
	}
	responder := handshake.Responder{NodeName: i.nodeName, Token: token, Host: host}
	var node corev1.Node
	switch err := i.client.Get(ctx, client.ObjectKey{Name: i.nodeName}, &node); {
	case err == nil:
		responder.Node = new(facts.Identity(&node))
	case !apierrors.IsNotFound(err):
		return self{}, fmt.Errorf("reading Node %s: %w", i.nodeName, err)
	}
	// The boot ID in the spelling of the Node, with which queries and responses are compared.
	found := self{podUID: token.PodUID, bootID: facts.Identity(&node).BootID, nodeObject: node.UID}
	found.nodeUID, found.reason, found.message = responder.RespondsFor()
	return found, nil
}

// token has the API server review the agent's own token.
func (i *identity) token(ctx context.Context) (handshake.Token, error) {
	var review authenticationv1.SelfSubjectReview
	if err := i.client.Create(ctx, &review); err != nil {
		return handshake.Token{}, fmt.Errorf("reviewing the agent's token: %w", err)
	}
	one := func(key string) string {
		if values := review.Status.UserInfo.Extra[key]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
	return handshake.Token{
		PodUID:   types.UID(one(serviceaccount.PodUIDKey)),
		NodeName: one(serviceaccount.NodeNameKey),
		NodeUID:  types.UID(one(serviceaccount.NodeUIDKey)),
	}, nil
}

// read gives the IDs of this machine. Only the boot ID is required.
func (f MachineFiles) read() (v1alpha1.NodeIdentity, error) {
	boot, err := os.ReadFile(f.BootID)
	if err != nil {
		return v1alpha1.NodeIdentity{}, fmt.Errorf("reading this machine's boot ID: %w", err)
	}
	return v1alpha1.NodeIdentity{BootID: facts.BoundedID(strings.TrimSpace(string(boot))), MachineID: optional(f.MachineID), SystemUUID: optional(f.SystemUUID)}, nil
}

func optional(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return facts.BoundedID(strings.TrimSpace(string(content)))
}
