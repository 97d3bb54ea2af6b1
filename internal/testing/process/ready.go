// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	probeInterval = 100 * time.Millisecond
	probeTimeout  = 2 * time.Second
	logTailBytes  = 2000
)

// A Probe returns nil when the program does its job. The error otherwise is
// shown when the program never gets there.
type Probe func(context.Context) error

// WaitReady calls the probe until it returns nil. It fails as soon as the
// program ends, and when ctx is done; the error then carries the last response of
// the probe, the path of the log and its end.
func (p *Process) WaitReady(ctx context.Context, probe Probe) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	last := errors.New("it was never probed")
	for {
		select {
		case <-p.done:
			return fmt.Errorf("waiting for %s to become ready: %w", p.name, p.unexpectedExit())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to become ready: %w, last response: %w; log: %s%s",
				p.name, context.Cause(ctx), last, p.logFile, LogTail(p.logFile))
		default:
		}
		err := runProbe(ctx, probe)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // else the probe was cut short and its error says nothing
			last = err
		}
		select {
		case <-p.done:
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func runProbe(ctx context.Context, probe Probe) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return probe(ctx)
}

// HTTPProbe is satisfied by status 200 from the URL. It does not verify the
// server's certificate, since components serve their health with self-signed
// ones.
func HTTPProbe(url string) Probe {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("probing %s: %w", url, err)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		body, _ := io.ReadAll(io.LimitReader(response.Body, logTailBytes))
		return fmt.Errorf("%s responded %s: %s", url, response.Status, bytes.TrimSpace(body))
	}
}

// LogTail returns the end of a log file, on lines of its own, to be appended to
// an error; the empty string when there is nothing to show.
func LogTail(path string) string {
	content, err := os.ReadFile(path)
	content = bytes.TrimSpace(content)
	if err != nil || len(content) == 0 {
		return ""
	}
	if len(content) > logTailBytes {
		content = content[len(content)-logTailBytes:]
		if _, rest, found := bytes.Cut(content, []byte("\n")); found {
			content = rest
		}
	}
	return fmt.Sprintf("\nits end:\n%s", content)
}
