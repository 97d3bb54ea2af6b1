// SPDX-License-Identifier: Apache-2.0

package process

import (
	"runtime"
	"sync"
)

// parentThread runs functions one after the other on an operating system
// thread that lives as long as the process.
var parentThread = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

// OnParentThread runs f, and returns when f did, on the one thread that starts
// children. Linux sends the parent death signal when the *thread* that started
// a child ends (prctl(2), PR_SET_PDEATHSIG; golang/go issue 27505), so code
// that starts such children through another library has to run here. f must
// not panic and must not call OnParentThread.
func OnParentThread(f func()) {
	done := make(chan struct{})
	parentThread() <- func() {
		defer close(done)
		f()
	}
	<-done
}
