// SPDX-License-Identifier: Apache-2.0

package sharedread

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestI6AReadIsSharedOnlyByThoseThatAskedBeforeItBegan has three callers ask while a read is being made: that read began before they asked.
func TestI6AReadIsSharedOnlyByThoseThatAskedBeforeItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, made := New[string](), 0
		read := func(context.Context) (string, error) {
			made++
			version := strconv.Itoa(made)
			<-time.After(time.Second) // virtual time
			return version, nil
		}
		got := make(chan string, 4)
		ask := func() {
			version, err := r.Get(t.Context(), read)
			if err != nil {
				t.Error(err)
				return
			}
			got <- version
		}
		go ask()
		synctest.Wait()
		for range 3 {
			go ask()
		}
		synctest.Wait()
		for i, want := range []string{"1", "2", "2", "2"} {
			if version := <-got; version != want {
				t.Errorf("caller %d got read %s, want %s", i, version, want)
			}
		}
		if ask(); <-got != "3" {
			t.Error("a caller got a read that had ended before it asked")
		}
	})
}

func TestAReadThatFailedOrNeverEndsIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New[string]()
		failed := errors.New("no response")
		errs := make(chan error, 1)
		go func() {
			_, err := r.Get(t.Context(), func(context.Context) (string, error) { <-time.After(time.Minute); return "", failed })
			errs <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Get(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller waited beyond its time: %v", err)
		}
		if version, err := r.Get(t.Context(), func(context.Context) (string, error) { return "1", nil }); err != nil || version != "1" {
			t.Errorf("after a read that failed: %q, %v", version, err)
		}
		if err := <-errs; !errors.Is(err, failed) {
			t.Errorf("the read that failed gave %v", err)
		}
	})
}

// TestAReadKeepsOnlyThoseOfItsObjectWaiting, and nothing is kept once all have their answer.
func TestAReadKeepsOnlyThoseOfItsObjectWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e Each[string, int]
		var slow atomic.Int64
		ask := func(object string, read func()) {
			if _, err := e.Get(t.Context(), object, func(context.Context) (int, error) { read(); return 0, nil }); err != nil {
				t.Error(err)
			}
		}
		var callers sync.WaitGroup
		for range 32 {
			callers.Go(func() { ask("slow", func() { slow.Add(1); <-time.After(time.Minute) }) }) // virtual time
		}
		synctest.Wait()
		began := time.Now()
		if ask("other", func() {}); time.Since(began) > 0 {
			t.Error("the read of one object waited for that of another")
		}
		callers.Wait()
		if made := slow.Load(); made != 2 {
			t.Errorf("32 callers had %d reads made, expected that of the first and one for all others", made)
		}
		if len(e.reads) > 0 {
			t.Errorf("%d objects are kept without a caller", len(e.reads))
		}
	})
}
