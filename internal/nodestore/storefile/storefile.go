// SPDX-License-Identifier: Apache-2.0

// Package storefile reads the files of IPAM stores, which others write: never past a symbolic link, never more than a limit, and
// never for longer than a file takes to be read, for any kind of file.
package storefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Read gives the content of a regular file in a folder, up to one byte more than the largest that the caller can use. A file
// that is not there is fs.ErrNotExist.
func Read(folder *os.Root, name string, largest int64) ([]byte, error) {
	file, err := Open(folder, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, largest+1))
}

// Open opens a regular file of a folder for reading. It does not wait for the other end of a pipe.
func Open(folder *os.Root, name string) (*os.File, error) {
	var file *os.File
	err := errReplaced
	for attempt := 0; attempt < attempts && errors.Is(err, errReplaced); attempt++ {
		file, err = open(folder, name)
	}
	return file, err
}

// attempts bound how often a file is opened that is replaced all the time.
const attempts = 5

var errReplaced = errors.New("the file was replaced while it was opened")

func open(folder *os.Root, name string) (*os.File, error) {
	info, err := folder.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s (%s): %w", name, info.Mode(), ErrNotRegular)
	}
	file, err := folder.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = fmt.Errorf("%s: %w", name, errReplaced)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// ErrNotRegular is the error for a folder, a symbolic link, a pipe and the like.
var ErrNotRegular = fmt.Errorf("not a regular file: %w", fs.ErrInvalid)
