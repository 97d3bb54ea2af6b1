// SPDX-License-Identifier: Apache-2.0

package awsipamd

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
)

func checkpointOf(ip, id string) string {
	return fmt.Sprintf(`{"version":"vpc-cni-ipam/1","allocations":[{"networkName":"aws-cni","containerID":%q,"ifName":"eth0","ipv4":%q,`+
		`"allocationTimestamp":1767225600000000000,"metadata":{"k8sPodNamespace":"default","k8sPodName":"web-0","interfacesCount":1}}]}`+"\n", id, ip)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// found is what the tests compare: sandbox and address by file, and the reason of a file that gave nothing.
type found struct {
	Entries map[string]string
	Unknown map[string]v1alpha1.Reason
}

func read(s *Source) found {
	f := found{Entries: map[string]string{}, Unknown: map[string]v1alpha1.Reason{}}
	for _, r := range s.Read() {
		for _, e := range r.Entries {
			f.Entries[r.Store.Name] += e.SandboxID + " " + e.IP.String()
		}
		if r.Unknown {
			f.Unknown[r.Store.Name] = r.Defects[0].Reason
		}
	}
	return f
}

func TestRead(t *testing.T) {
	cases := map[string]struct {
		make func(t *testing.T, dir string)
		want found
	}{
		"a node that has just booted": {make: func(*testing.T, string) {}, want: found{}},
		"a checkpoint":                {make: func(t *testing.T, dir string) { write(t, dir+"/ipam.json", checkpointOf("10.0.0.2", "s1")) }, want: found{Entries: map[string]string{"ipam.json": "s1 10.0.0.2"}}},
		"two network cards, and files that are no checkpoints": {
			make: func(t *testing.T, dir string) {
				write(t, dir+"/ipam.json", checkpointOf("10.0.0.2", "s1"))
				write(t, dir+"/ipam-nic-1.json", checkpointOf("10.0.1.2", "s1"))
				for _, name := range []string{"ipam.json.tmp123", "ipam-nic-x.json", "ipam-nic-1.json.bak", "ipam-nic-.json", "other-nic-1.json"} {
					write(t, dir+"/"+name, checkpointOf("10.0.9.9", "s9"))
				}
			}, want: found{Entries: map[string]string{"ipam.json": "s1 10.0.0.2", "ipam-nic-1.json": "s1 10.0.1.2"}}},
		"one of two of another version": {
			make: func(t *testing.T, dir string) {
				write(t, dir+"/ipam.json", checkpointOf("10.0.0.2", "s1"))
				write(t, dir+"/ipam-nic-1.json", `{"version":"vpc-cni-ipam/2","allocations":[]}`)
			}, want: found{Entries: map[string]string{"ipam.json": "s1 10.0.0.2"}, Unknown: map[string]v1alpha1.Reason{"ipam-nic-1.json": v1alpha1.ReasonStoreVersionUnknown}}},
		"half a file": {make: func(t *testing.T, dir string) { write(t, dir+"/ipam.json", checkpointOf("10.0.0.2", "s1")[:90]) },
			want: found{Unknown: map[string]v1alpha1.Reason{"ipam.json": v1alpha1.ReasonStoreBroken}}},
		"a pipe, which is not waited for": {
			make: func(t *testing.T, dir string) {
				if err := unix.Mkfifo(dir+"/ipam.json", 0o600); err != nil {
					t.Fatal(err)
				}
			}, want: found{Unknown: map[string]v1alpha1.Reason{"ipam.json": v1alpha1.ReasonStoreBroken}}},
		"a link to elsewhere": {
			make: func(t *testing.T, dir string) {
				write(t, dir+"/elsewhere", checkpointOf("10.0.0.2", "s1"))
				if err := os.Symlink("elsewhere", dir+"/ipam.json"); err != nil {
					t.Fatal(err)
				}
			}, want: found{Unknown: map[string]v1alpha1.Reason{"ipam.json": v1alpha1.ReasonStoreBroken}}},
		"a folder that is not there": {make: func(t *testing.T, dir string) {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
		}, want: found{}},
		"a folder that is a file": {make: func(t *testing.T, dir string) {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			write(t, dir, "")
		}, want: found{Unknown: map[string]v1alpha1.Reason{"": v1alpha1.ReasonStoreUnreadable}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "aws-node")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			tc.make(t, dir)
			if tc.want.Entries == nil {
				tc.want.Entries = map[string]string{}
			}
			if tc.want.Unknown == nil {
				tc.want.Unknown = map[string]v1alpha1.Reason{}
			}
			if diff := cmp.Diff(tc.want, read(New(dir+"/ipam.json"))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAnEntryNamesItsStore(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/ipam-nic-2.json", checkpointOf("10.0.0.2", "s1"))
	want := nodestore.Entry{Store: nodestore.Store{Backend: nodestore.AWSIPAMD, Source: dir + "/ipam.json", Name: "ipam-nic-2.json"},
		IP: netip.MustParseAddr("10.0.0.2"), SandboxID: "s1", Interface: "eth0", Network: "aws-cni", Pod: "default/web-0"}
	var got []nodestore.Entry
	for _, r := range New(dir + "/ipam.json").Read() {
		got = append(got, r.Entries...)
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("want %+v, got %+v", want, got)
	}
}

func TestFingerprintChangesWithTheCheckpoints(t *testing.T) {
	dir := t.TempDir()
	s := New(dir + "/ipam.json")
	none := s.Fingerprint()
	write(t, dir+"/ipam.json", checkpointOf("10.0.0.2", "s1"))
	first := s.Fingerprint()
	write(t, dir+"/ipam.json.tmp1", checkpointOf("10.0.0.22", "s1"))
	if beside := s.Fingerprint(); none == first || beside != first {
		t.Errorf("want a change with the checkpoint and none with the file beside it: %q, %q, %q", none, first, beside)
	}
	if err := os.Rename(dir+"/ipam.json.tmp1", dir+"/ipam.json"); err != nil {
		t.Fatal(err)
	}
	if s.Fingerprint() == first {
		t.Error("a checkpoint that was replaced looks like before")
	}
}
