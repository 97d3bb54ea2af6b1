// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/internal/testing/transcript"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// result is how a command ended, and what it printed.
type result struct {
	code     int
	out, err string
}

// plugin runs the command to its end, as an administrator does.
func plugin(ctx context.Context, args ...string) result {
	GinkgoHelper()
	return pluginWith(ctx, plane.Kubeconfig(), "", args...)
}

// pluginWith runs it with a kubeconfig and a standard input.
func pluginWith(ctx context.Context, kubeconfig, input string, args ...string) result {
	GinkgoHelper()
	session := startPlugin(kubeconfig, strings.NewReader(input), args...)
	defer func() { session.Kill() }()
	return ended(ctx, session)
}

func startPlugin(kubeconfig string, input io.Reader, args ...string) *gexec.Session {
	GinkgoHelper()
	command := exec.Command(fixture.Command("kubectl-holdfast"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	command.Env = append(os.Environ(), "HOME="+GinkgoT().TempDir())
	command.Stdin = input
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	return session
}

func ended(ctx context.Context, session *gexec.Session) result {
	GinkgoHelper()
	Eventually(session).WithContext(ctx).WithTimeout(commandTimeout).Should(gexec.Exit())
	return result{session.ExitCode(), string(session.Out.Contents()), string(session.Err.Contents())}
}

// newTerminal is a pseudo-terminal: the plugin asks only a person.
func newTerminal() (keyboard, terminal *os.File) {
	GinkgoHelper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	Expect(err).NotTo(HaveOccurred())
	Expect(unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)).To(Succeed())
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	Expect(err).NotTo(HaveOccurred())
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return errors.Join(terminal.Close(), keyboard.Close()) })
	return keyboard, terminal
}

// kubeconfigOf is the kubeconfig of a user with the rights of a ClusterRole that is given elsewhere, or with none.
func kubeconfigOf(name string, groups ...string) string {
	GinkgoHelper()
	_, content, err := plane.AddUser(name, groups...)
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return file
}

// decoded is a report in JSON.
func decoded(r result) map[string]any {
	GinkgoHelper()
	var report map[string]any
	Expect(json.Unmarshal([]byte(r.out), &report)).To(Succeed(), r.out+r.err)
	return report
}

// text is what a command printed, without what differs from run to run.
func text(out string) string { return transcript.Normal(out) }

// text is what a command printed, without what differs from world to world.
func (w *world) text(out string) string {
	return text(strings.NewReplacer(w.namespace, "NS", w.node, "NODE", strings.TrimSuffix(w.ip(0), ".0")+".", "NET.").Replace(out))
}
