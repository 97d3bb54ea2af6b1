// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
	"github.com/holdfast-dev/holdfast/internal/testing/scheduler"
)

// race is a history: clients count up one object, each retries until its write was taken.
func race(t *testing.T, o scheduler.Options) (recorded []string, count string, derailed int) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(o)
		server := apiserver.New(apiserver.Options{Gate: s, HoldEvents: true}, apiserver.Natives()...)
		s.Serve(server)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		const clients = 3
		go watch(ctx, server, done)
		for i := range clients {
			go countUp(ctx, s, server, fmt.Sprintf("client-%d", i), done)
		}
		s.Run(time.Minute)
		recorded, derailed = s.Recorded(), s.Derailed()
		cancel()
		s.Open()
		for range clients + 1 {
			<-done
		}
		for _, o := range server.All("nodes") {
			count = o.GetLabels()["count"]
		}
	})
	return recorded, count, derailed
}

func connect(server *apiserver.Server, name string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://memory", Transport: server.Client(apiserver.Identity{Client: name}), QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
}

func watch(ctx context.Context, server *apiserver.Server, done chan<- struct{}) {
	defer func() { done <- struct{}{} }()
	for ctx.Err() == nil {
		w, err := connect(server, "watcher").CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for open := true; open; {
			_, open = <-w.ResultChan()
		}
	}
}

func countUp(ctx context.Context, s *scheduler.Scheduler, server *apiserver.Server, name string, done chan<- struct{}) {
	defer func() { done <- struct{}{} }()
	nodes := connect(server, name).CoreV1().Nodes()
	for try := 0; try < 20 && s.Turn(ctx, name+" begins") == nil; try++ {
		node, err := nodes.Get(ctx, "n", metav1.GetOptions{})
		if err != nil {
			_, _ = nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"count": "0"}}}, metav1.CreateOptions{})
			continue
		}
		node.Labels["count"] += "x"
		if _, err := nodes.Update(ctx, node, metav1.UpdateOptions{}); err == nil {
			return
		}
	}
}

func TestOneSeedIsOneHistory(t *testing.T) {
	distinct := map[string]bool{}
	for seed := range uint64(20) {
		o := scheduler.Options{Seed: seed}
		first, count, _ := race(t, o)
		again, _, _ := race(t, o)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("seed %d, played twice:\n%s", seed, diff)
		}
		distinct[fmt.Sprint(first)] = true
		if count != "0xxx" {
			t.Errorf("seed %d: the count is %q after %d steps, one x for each client was expected", seed, count, len(first))
		}
	}
	if len(distinct) < 20 {
		t.Errorf("20 seeds played %d histories", len(distinct))
	}
}

func TestARecordedScheduleIsReplayed(t *testing.T) {
	recorded, _, _ := race(t, scheduler.Options{Seed: 7})
	again, _, derailed := race(t, scheduler.Options{Seed: 8, Replay: recorded})
	if diff := cmp.Diff(recorded, again[:min(len(again), len(recorded))]); diff != "" || derailed > 0 {
		t.Errorf("%d steps were not possible:\n%s", derailed, diff)
	}
}
