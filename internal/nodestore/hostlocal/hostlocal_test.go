// SPDX-License-Identifier: Apache-2.0

package hostlocal

import (
	"cmp"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
)

// write makes a file with its folders.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func storeOf(dir, network string) nodestore.Store {
	return nodestore.Store{Backend: nodestore.HostLocal, Source: dir, Name: network}
}

func entryOf(dir, network, ip, id, ifName string) nodestore.Entry {
	return nodestore.Entry{Store: storeOf(dir, network), IP: netip.MustParseAddr(ip), SandboxID: id, Interface: ifName, Network: network}
}

// summary is what the tests compare: entries, and defects by file and reason.
type summary struct {
	Entries []nodestore.Entry
	Defects map[string]v1alpha1.Reason
	Unknown []string
}

func summarize(dir string, readings []nodestore.Reading) summary {
	s := summary{Defects: map[string]v1alpha1.Reason{}}
	for _, r := range readings {
		s.Entries = append(s.Entries, r.Entries...)
		for _, d := range r.Defects {
			s.Defects[strings.TrimPrefix(d.Path, dir)] = d.Reason
		}
		if r.Unknown {
			s.Unknown = append(s.Unknown, r.Store.Name)
		}
	}
	slices.SortFunc(s.Entries, func(x, y nodestore.Entry) int {
		return cmp.Or(cmp.Compare(x.Network, y.Network), x.IP.Compare(y.IP))
	})
	return s
}

var addresses = gocmp.Comparer(func(x, y netip.Addr) bool { return x == y })

func TestRead(t *testing.T) {
	cases := map[string]struct {
		networks []string
		make     func(t *testing.T, dir string)
		want     func(dir string) summary
	}{
		"a directory that is not there": {make: func(*testing.T, string) {}, want: func(string) summary { return summary{} }},
		"two networks, with all that host-local keeps": {
			make: func(t *testing.T, dir string) {
				write(t, dir+"/a/10.0.0.2", "s1\r\neth0")
				write(t, dir+"/a/10.0.0.3", "s2")
				write(t, dir+"/a/lock", "")
				write(t, dir+"/a/last_reserved_ip.0", "10.0.0.3")
				write(t, dir+"/b/fd00::2", "s1\r\nnet1")
				write(t, dir+"/b/lock", "")
			},
			want: func(dir string) summary {
				return summary{Entries: []nodestore.Entry{entryOf(dir, "a", "10.0.0.2", "s1", "eth0"), entryOf(dir, "a", "10.0.0.3", "s2", ""), entryOf(dir, "b", "fd00::2", "s1", "net1")}}
			}},
		"only the networks that are named": {
			networks: []string{"b", "absent"},
			make: func(t *testing.T, dir string) {
				write(t, dir+"/a/10.0.0.2", "")
				write(t, dir+"/b/10.0.0.2", "s1\r\neth0")
			},
			want: func(dir string) summary {
				return summary{Entries: []nodestore.Entry{entryOf(dir, "b", "10.0.0.2", "s1", "eth0")}}
			}},
		"what is broken hides nothing else": {
			make: func(t *testing.T, dir string) {
				write(t, dir+"/a/10.0.0.2", "s1\r\neth0")
				write(t, dir+"/a/10.0.0.3", "")
				write(t, dir+"/a/10.0.0.4.bak", "s1\r\neth0")
				write(t, dir+"/a/10.0.0.5", strings.Repeat("x", 1<<20))
				write(t, dir+"/a/10.0.0.6/10.0.0.7", "s1\r\neth0")
			},
			want: func(dir string) summary {
				return summary{Entries: []nodestore.Entry{entryOf(dir, "a", "10.0.0.2", "s1", "eth0")}, Defects: map[string]v1alpha1.Reason{
					"/a/10.0.0.3": v1alpha1.ReasonStoreBroken, "/a/10.0.0.4.bak": v1alpha1.ReasonStoreBroken, "/a/10.0.0.5": v1alpha1.ReasonStoreBroken,
					"/a/10.0.0.6": v1alpha1.ReasonStoreBroken}}
			}},
		"what is no file is never opened: a pipe without a writer, a link to elsewhere": {
			make: func(t *testing.T, dir string) {
				write(t, dir+"/a/10.0.0.2", "s1\r\neth0")
				write(t, dir+"/secret", "s9\r\neth0")
				if err := unix.Mkfifo(dir+"/a/10.0.0.3", 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(dir+"/secret", dir+"/a/10.0.0.4"); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink("10.0.0.2", dir+"/a/10.0.0.5"); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(dir+"/a", dir+"/linked"); err != nil {
					t.Fatal(err)
				}
			},
			want: func(dir string) summary {
				return summary{Entries: []nodestore.Entry{entryOf(dir, "a", "10.0.0.2", "s1", "eth0")}, Defects: map[string]v1alpha1.Reason{
					"/a/10.0.0.3": v1alpha1.ReasonStoreBroken, "/a/10.0.0.4": v1alpha1.ReasonStoreBroken, "/a/10.0.0.5": v1alpha1.ReasonStoreBroken}}
			}},
		"the folder of a network, configured as the data directory": {
			make: func(t *testing.T, dir string) {
				write(t, dir+"/10.0.0.2", "s1\r\neth0")
				write(t, dir+"/lock", "")
			},
			want: func(string) summary {
				return summary{Defects: map[string]v1alpha1.Reason{"/10.0.0.2": v1alpha1.ReasonStoreBroken}}
			}},
		"a data directory that is a file": {
			make: func(t *testing.T, dir string) { write(t, dir, "") },
			want: func(string) summary {
				return summary{Defects: map[string]v1alpha1.Reason{"": v1alpha1.ReasonStoreUnreadable}, Unknown: []string{""}}
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "networks")
			tc.make(t, dir)
			want := tc.want(dir)
			if want.Defects == nil {
				want.Defects = map[string]v1alpha1.Reason{}
			}
			if diff := gocmp.Diff(want, summarize(dir, New(dir, tc.networks).Read()), addresses); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestFingerprintChangesWithTheEntries(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a/10.0.0.2", "s1\r\neth0")
	write(t, dir+"/other/10.0.0.2", "s1\r\neth0")
	s := New(dir, []string{"a", "b"})
	// Folders with a time in the past: any change gives them another.
	past := func() string {
		for _, folder := range []string{dir + "/a", dir + "/other", dir} {
			if err := unix.Utimes(folder, []unix.Timeval{{Sec: 1}, {Sec: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		return s.Fingerprint()
	}
	steps := map[string]struct {
		change func()
		want   bool
	}{
		"nothing":                          {func() {}, false},
		"an address is added":              {func() { write(t, dir+"/a/10.0.0.3", "s2\r\neth0") }, true},
		"an address is removed":            {func() { _ = os.Remove(dir + "/a/10.0.0.2") }, true},
		"a network is added":               {func() { write(t, dir+"/b/10.0.0.3", "s2\r\neth0") }, true},
		"another network gets an address":  {func() { write(t, dir+"/other/10.0.0.3", "s2\r\neth0") }, false},
		"the whole directory is not there": {func() { _ = os.RemoveAll(dir + "/a"); _ = os.RemoveAll(dir + "/b") }, true},
	}
	for _, name := range []string{"nothing", "an address is added", "an address is removed", "a network is added", "another network gets an address", "the whole directory is not there"} {
		t.Run(name, func(t *testing.T) {
			before := past()
			steps[name].change()
			if changed := s.Fingerprint() != before; changed != steps[name].want {
				t.Errorf("want changed %v, got %v", steps[name].want, changed)
			}
		})
	}
}
