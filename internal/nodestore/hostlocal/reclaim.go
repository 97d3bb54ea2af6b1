// SPDX-License-Identifier: Apache-2.0

package hostlocal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
	"github.com/holdfast-dev/holdfast/internal/nodestore/storefile"
)

const (
	// lockTimeout is more than enough for host-local, which holds its lock for milliseconds.
	lockTimeout = 5 * time.Second
	// lockRetry is how often the lock is tried.
	lockRetry = 20 * time.Millisecond
)

// Reclaim removes an entry whose sandbox is proven gone, as host-local's DEL would: under the lock of the network's folder, and
// only while the file of the address still has this sandbox ID and interface. The reason is ReasonAddressReclaimed, or
// ReasonAddressChanged where nothing was removed because the file is removed or another.
func (s *Source) Reclaim(ctx context.Context, e nodestore.Entry) (v1alpha1.Reason, error) {
	if e.Store.Backend != nodestore.HostLocal || e.Store.Source != s.dir || !s.covers(e.Store.Name) || !filepath.IsLocal(e.Store.Name) {
		return "", fmt.Errorf("reclaiming %s of %s: not an entry of %s", e.IP, e.Store, s.dir)
	}
	reason, err := s.reclaim(ctx, e)
	if err != nil {
		return "", fmt.Errorf("reclaiming %s of %s: %w", e.IP, e.Store, err)
	}
	return reason, nil
}

func (s *Source) reclaim(ctx context.Context, e nodestore.Entry) (v1alpha1.Reason, error) {
	folder, err := os.OpenRoot(filepath.Join(s.dir, e.Store.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return v1alpha1.ReasonAddressChanged, nil
	}
	if err != nil {
		return "", err
	}
	defer folder.Close()
	lock, err := lock(ctx, folder, s.lockTimeout)
	if err != nil {
		return "", err
	}
	// To close the file is to unlock it: no other process has this open file.
	defer lock.Close()
	name := e.IP.String()
	now, _, err := readEntry(folder, e.Store, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v1alpha1.ReasonAddressChanged, nil
	case err != nil:
		return "", fmt.Errorf("reading it again under the lock: %w", err)
	case now != e:
		return v1alpha1.ReasonAddressChanged, nil
	}
	if err := folder.Remove(name); err != nil {
		return "", fmt.Errorf("%w (the data directory has to be mounted writable)", err)
	}
	return v1alpha1.ReasonAddressReclaimed, nil
}

// lock takes host-local's lock. A folder without the file is none in which host-local ever worked, and a lock that was replaced
// while we waited keeps no process out.
func lock(ctx context.Context, folder *os.Root, timeout time.Duration) (*os.File, error) {
	file, err := storefile.Open(folder, nodestore.HostLocalLock)
	if err != nil {
		return nil, fmt.Errorf("opening host-local's lock: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, lockRetry, timeout, true, func(context.Context) (bool, error) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return false, nil
		}
		return err == nil, err
	})
	if err == nil {
		err = inPlace(folder, file)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("taking host-local's lock within %s: %w", timeout, err)
	}
	return file, nil
}

// inPlace: the file that was locked is the one that the next host-local will lock.
func inPlace(folder *os.Root, file *os.File) error {
	held, err := file.Stat()
	if err != nil {
		return err
	}
	there, err := folder.Lstat(nodestore.HostLocalLock)
	if err != nil {
		return err
	}
	if !os.SameFile(held, there) {
		return errors.New("the lock was replaced meanwhile")
	}
	return nil
}
