// SPDX-License-Identifier: Apache-2.0

// Package client talks to the control socket of simulated nodes.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// requestTimeout bounds one call; the server responds from memory, apart from
// one read of the Nodes.
const requestTimeout = 30 * time.Second

// Client is safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

// New returns a client of the unix socket at this path. It does not connect yet.
func New(socket string) *Client {
	dialer := &net.Dialer{}
	return &Client{
		socket: socket,
		http: &http.Client{
			Timeout: requestTimeout,
			Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", socket)
			}},
		},
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Nodes lists the simulated machines.
func (c *Client) Nodes(ctx context.Context) ([]api.Node, error) {
	return get[[]api.Node](ctx, c, "/v1/nodes")
}

// Sandboxes lists every sandbox that ever existed, oldest first.
func (c *Client) Sandboxes(ctx context.Context) ([]api.Sandbox, error) {
	return get[[]api.Sandbox](ctx, c, "/v1/sandboxes")
}

// History lists everything that happened, oldest first.
func (c *Client) History(ctx context.Context) ([]api.Event, error) {
	return get[[]api.Event](ctx, c, "/v1/history")
}

// Do does something to the machine of a node: what it is called, api has.
func (c *Client) Do(ctx context.Context, action, node string) error {
	_, err := c.do(ctx, http.MethodPost, "/v1/nodes/"+url.PathEscape(node)+"/"+action)
	return err
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var response T
	body, err := c.do(ctx, http.MethodGet, path)
	if err != nil {
		return response, err
	}
	if err := json.Unmarshal(body, &response); err != nil {
		return response, fmt.Errorf("simulated nodes at %s: response to GET %s: %w", c.socket, path, err)
	}
	return response, nil
}

// do returns the body of a successful response. The error otherwise carries what
// the server said.
func (c *Client) do(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://simnode"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("simulated nodes: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("simulated nodes at %s: %w", c.socket, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("simulated nodes at %s: %s %s: %w", c.socket, method, path, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("simulated nodes: %s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(body))
	}
	return body, nil
}
