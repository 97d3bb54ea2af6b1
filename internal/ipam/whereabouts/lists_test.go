// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestI6AListIsSharedOnlyByThoseThatAskedBeforeItBegan has three callers ask while a list is being made: that list began before they asked.
func TestI6AListIsSharedOnlyByThoseThatAskedBeforeItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, made := newLists(), 0
		list := func(context.Context) ([]metav1.ObjectMeta, error) {
			made++
			version := strconv.Itoa(made)
			<-time.After(time.Second) // virtual time
			return []metav1.ObjectMeta{{ResourceVersion: version}}, nil
		}
		got := make(chan string, 4)
		ask := func() {
			pools, err := l.get(t.Context(), list)
			if err != nil {
				t.Error(err)
				return
			}
			got <- pools[0].ResourceVersion
		}
		go ask()
		synctest.Wait()
		for range 3 {
			go ask()
		}
		synctest.Wait()
		for i, want := range []string{"1", "2", "2", "2"} {
			if version := <-got; version != want {
				t.Errorf("caller %d got list %s, want %s", i, version, want)
			}
		}
		if ask(); <-got != "3" {
			t.Error("a caller got a list that had ended before it asked")
		}
	})
}

func TestAListThatFailedOrNeverEndsIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		failed := errors.New("no response")
		errs := make(chan error, 1)
		go func() {
			_, err := l.get(t.Context(), func(context.Context) ([]metav1.ObjectMeta, error) { <-time.After(time.Minute); return nil, failed })
			errs <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.get(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller waited beyond its time: %v", err)
		}
		pools, err := l.get(t.Context(), func(context.Context) ([]metav1.ObjectMeta, error) { return []metav1.ObjectMeta{{Name: "pool"}}, nil })
		if err != nil || len(pools) != 1 {
			t.Errorf("after a list that failed: %v, %v", pools, err)
		}
		if err := <-errs; !errors.Is(err, failed) {
			t.Errorf("the list that failed gave %v", err)
		}
	})
}
