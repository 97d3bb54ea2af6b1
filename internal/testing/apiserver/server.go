// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Options of a server. The zero value serves every call at once.
type Options struct {
	// Gate decides when each call is served, and how it fails. Default: at once, and not.
	Gate Gate
	// HoldEvents keeps the events of watches until Stream.Deliver; without it they are sent as they happen.
	HoldEvents bool
	// OnChange sees every change of a stored object, in order, while the server is locked: it must not call the server.
	OnChange func(Change)
	// Webhook is the handler behind the client configuration of a webhook; nil is a webhook that no call reaches.
	Webhook func(admissionregistrationv1.WebhookClientConfig) http.Handler
	// State is what the server begins with; nil is nothing. Its kinds have to be those of the server that it was taken from.
	State *State
}

// Gate stands between the clients and the server. Pass blocks until the call may be served.
type Gate interface {
	Pass(ctx context.Context, call Call) Outcome
}

// Call is a call to the server, as a client made it.
type Call struct {
	Client, Verb, Resource, Namespace, Name, Subresource string
	// Selector is that of a list or watch.
	Selector string
	Body     []byte
}

// String is the call in one line, without the body.
func (c Call) String() string {
	return strings.Join(strings.Fields(strings.Join([]string{c.Client, c.Verb, c.Resource, c.Namespace, c.Name, c.Subresource, c.Selector}, " ")), " ")
}

// Outcome is what becomes of a call. The zero value serves it.
type Outcome struct {
	// Err fails the call instead of serving it: the client gets an API status as such, any other error as a broken connection.
	Err error
	// Lost serves the call and breaks the connection before the response.
	Lost bool
}

// Change is one change of a stored object. Old or New is nil when there is none; neither may be written to.
type Change struct {
	Kind     *Kind
	Old, New map[string]any
	// User and Client made the call.
	User, Client string
	Revision     uint64
}

// Server is an API server in memory. Its methods are safe for concurrent use.
type Server struct {
	options Options
	kinds   map[string]*Kind // by group/version/plural
	mapper  meta.RESTMapper

	mu       sync.Mutex
	revision uint64
	serial   uint64         // of generated names
	created  map[string]int // how many objects there were of each name
	objects  map[*Kind]map[string]*stored
	history  []event
	// compacted is the last revision from before which nothing can be read or watched.
	compacted uint64
	streams   []*Stream

	compiled *compiledAdmission
	// force is nil when it has to be made anew.
	force *inForce
}

// firstRevision leaves revisions below it for versions that are too old.
const firstRevision = 100

// New serves kinds, all of them empty.
func New(o Options, kinds ...*Kind) *Server {
	s := &Server{options: o, kinds: map[string]*Kind{}, objects: map[*Kind]map[string]*stored{}, revision: firstRevision, created: map[string]int{}, compiled: newCompiledAdmission()}
	for _, k := range kinds {
		s.kinds[k.Group+"/"+k.Version+"/"+k.Plural] = k
		s.objects[k] = map[string]*stored{}
	}
	if from := o.State; from != nil {
		s.revision, s.serial, s.compacted, s.compiled, s.force = from.revision, from.serial, from.compacted, from.compiled, from.force
		s.history, s.created = slices.Clone(from.history), maps.Clone(from.created)
		for k, objects := range from.objects {
			s.objects[k] = maps.Clone(objects)
		}
	}
	s.mapper = s.newMapper()
	return s
}

// Mapper is a RESTMapper of the kinds that are served and of their lists, as client-go makes one by discovery.
func (s *Server) Mapper() meta.RESTMapper { return s.mapper }

func (s *Server) newMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, k := range s.kinds {
		scope := meta.RESTScopeRoot
		if k.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		m.AddSpecific(k.GroupVersionKind, k.groupVersionResource(), k.GroupVersion().WithResource(strings.ToLower(k.Kind)), scope)
		m.Add(k.GroupVersion().WithKind(k.Kind+"List"), scope)
	}
	m.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	return m
}

// Identity is who calls.
type Identity struct {
	// Client names the process in calls and streams.
	Client string
	// User is what authentication found. Default: system:admin.
	User user.Info
}

// Client is one client's way to the server: an http.RoundTripper.
func (s *Server) Client(i Identity) *Client {
	if i.User == nil {
		i.User = &user.DefaultInfo{Name: "system:admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	}
	return &Client{server: s, identity: i, killed: make(chan struct{})}
}
