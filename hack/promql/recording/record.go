// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
)

// Targets are the processes that expose metrics, by their label job.
type Targets map[string][]*targetgroup.Group

// ParseTargets reads "job=url" several times.
func ParseTargets(all []string) (Targets, error) {
	targets := Targets{}
	for _, text := range all {
		job, location, _ := strings.Cut(text, "=")
		parsed, err := url.Parse(location)
		if err != nil || job == "" || parsed.Host == "" {
			return nil, fmt.Errorf("target is %q, expected job=url, such as holdfast-metrics=http://127.0.0.1:8443/metrics", text)
		}
		targets[job] = append(targets[job], &targetgroup.Group{Source: text, Targets: []model.LabelSet{{
			model.AddressLabel: model.LabelValue(parsed.Host), model.SchemeLabel: model.LabelValue(parsed.Scheme), model.MetricsPathLabel: model.LabelValue(parsed.Path),
		}}})
	}
	return targets, nil
}

// Record scrapes targets until ctx ends, and leaves the series of these names in a folder, which it makes.
func Record(ctx context.Context, targets Targets, names []string, interval time.Duration, folder string) (err error) {
	work, err := os.MkdirTemp(filepath.Dir(folder), "recording-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	options := tsdb.DefaultOptions()
	options.MinBlockDuration = (24 * time.Hour).Milliseconds() // all of it becomes one block
	options.MaxBlockDuration = options.MinBlockDuration
	db, err := tsdb.Open(filepath.Join(work, "db"), nil, nil, options, nil)
	if err != nil {
		return fmt.Errorf("making a storage: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := scrapeInto(ctx, db, targets, names, interval); err != nil {
		return fmt.Errorf("scraping: %w", err)
	}
	if err := db.Snapshot(filepath.Join(work, "blocks"), true); err != nil {
		return fmt.Errorf("writing the recording: %w", err)
	}
	blocks, err := filepath.Glob(filepath.Join(work, "blocks", "*"))
	if err != nil || len(blocks) != 1 {
		return fmt.Errorf("the recording has %d blocks, expected one: nothing was scraped (%w)", len(blocks), err)
	}
	return os.Rename(blocks[0], folder)
}

func scrapeInto(ctx context.Context, db *tsdb.DB, targets Targets, names []string, interval time.Duration) error {
	manager, err := scrape.NewManager(&scrape.Options{DiscoveryReloadOnStartup: true}, nil, nil, db, nil, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "global: {scrape_interval: %s, scrape_timeout: %[1]s}\nscrape_configs:\n", model.Duration(interval))
	for job := range targets {
		fmt.Fprintf(&text, "- {job_name: %q, fallback_scrape_protocol: PrometheusText0.0.4, metric_relabel_configs: [{source_labels: [__name__], regex: %q, action: keep}]}\n",
			job, strings.Join(names, "|"))
	}
	wanted, err := config.Load(text.String(), nil)
	if err != nil {
		return err
	}
	if err := manager.ApplyConfig(wanted); err != nil {
		return err
	}
	sets := make(chan map[string][]*targetgroup.Group, 1)
	sets <- targets
	ran := make(chan error, 1)
	go func() { ran <- manager.Run(sets) }()
	<-ctx.Done()
	manager.Stop()
	return <-ran
}
