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

// callTimeout bounds a call to the API server inside a round, so that the row of lists does not break.
const callTimeout = 10 * time.Second

// MachineFiles are where the machine's IDs are read.
type MachineFiles struct {
	MachineID, BootID, SystemUUID string
}

// self is for which Node the agent may respond.
type self struct {
	nodeUID types.UID
	podUID  types.UID
	// bootID is the machine's boot, which is the Node's too wherever nodeUID is set.
	bootID string
	// reason and message say why it may respond for none; nodeUID is empty then.
	reason  v1alpha1.Reason
	message string
	// nodeObject is the UID of the live Node object, whether the agent may respond for it or not.
	nodeObject types.UID
}

// identity finds out who the agent is, by live reads. It is safe for concurrent use.
type identity struct {
	client   client.Client
	nodeName string
	files    MachineFiles
	clock    clock.PassiveClock

	mu   sync.Mutex
	last self
	at   time.Time
}

// known is what was found last, and when that was begun; zero before.
func (i *identity) known() (self, time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last, i.at
}

// fresh finds out.
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
	// The boot ID as the Node spells it: queries and responses are compared with the Node.
	found := self{podUID: token.PodUID, bootID: node.Status.NodeInfo.BootID, nodeObject: node.UID}
	found.nodeUID, found.reason, found.message = responder.RespondsFor()
	return found, nil
}

// token asks the API server what it reads from the agent's own token.
func (i *identity) token(ctx context.Context) (handshake.Token, error) {
	var review authenticationv1.SelfSubjectReview
	if err := i.client.Create(ctx, &review); err != nil {
		return handshake.Token{}, fmt.Errorf("asking the API server for whom this token was issued: %w", err)
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

// read gives the IDs of this machine. The boot ID has to be there; a machine may lack the others.
func (f MachineFiles) read() (v1alpha1.NodeIdentity, error) {
	boot, err := os.ReadFile(f.BootID)
	if err != nil {
		return v1alpha1.NodeIdentity{}, fmt.Errorf("reading this machine's boot ID: %w", err)
	}
	return v1alpha1.NodeIdentity{BootID: strings.TrimSpace(string(boot)), MachineID: optional(f.MachineID), SystemUUID: optional(f.SystemUUID)}, nil
}

func optional(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
