package tools_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// putCopy calls put with every file and directory of a copy of a running broker's directory.
func putCopy(t *testing.T, put func(log.CopyEntry) error) error {
	t.Helper()
	d := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1, SegmentBytes: 2000})
	defer d.Close()
	_, w := d.Lead(0)
	var end event.LSN
	for i := range event.SequenceNumber(20) {
		end = d.Append(w, 1000, &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: i + 1, Body: event.Blob{Data: make([]byte, 300)}})
	}
	return d.Store.(log.Copier).Copy(context.Background(), []event.LSN{end}, put)
}

// TestReceive: a received directory gets its name when it is complete, durable and verified, and
// only its owner can access it.
func TestReceive(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.Mkdir(dir, 0o755); err != nil { // an empty one may be there
		t.Fatal(err)
	}
	in, err := tools.Receive(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tools.Receive(dir); !errors.Is(err, tools.ErrNotEmpty) {
		t.Errorf("two at a time: %v", err)
	}
	if err := putCopy(t, func(c log.CopyEntry) error { return in.Put(c.Name, c.Size, c.Contents) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "namespace.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has its name before it is verified: %v", err)
	}
	var said bytes.Buffer
	found, err := in.Finish(&said)
	if err != nil || found.Frames != 21 || said.Len() > 0 || in.Bytes < 20*300 {
		t.Fatalf("%v %+v %s; want found.Frames == 21 && said.Len() <= 0 && in.Bytes >= 20*300", err, found, said.String())
	}
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + tools.PartialSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%+v; want errors.Is(err, os.ErrNotExist)", err)
	}
	s, err := log.Open(t.Context(), dir, log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.Open(t.Context(), 0); err != nil || !p.Recovery().Clean {
		t.Errorf("%v; want err == nil && p.Recovery().Clean", err)
	}
	s.Close()
	if _, err := tools.Receive(dir); !errors.Is(err, tools.ErrNotEmpty) {
		t.Errorf("over another directory: %v", err)
	}
}

// A damaged or incomplete copy does not get the name. Names that could lead out of the directory
// are refused, and received data is removed.
func TestReceiveRefused(t *testing.T) {
	t.Parallel()
	flip := func(c log.CopyEntry) (log.CopyEntry, error) {
		p := make([]byte, c.Size)
		if _, err := c.Contents.Read(p); err != nil {
			return c, err
		}
		p[len(p)/2] ^= 1
		c.Contents = bytes.NewReader(p)
		return c, nil
	}
	for name, harm := range map[string]struct {
		change func(log.CopyEntry) (log.CopyEntry, error)
		says   string
	}{
		"a segment": {func(c log.CopyEntry) (log.CopyEntry, error) {
			if strings.Contains(c.Name, "/wal/") && !c.Dir {
				return flip(c)
			}
			return c, nil
		}, "damaged"},
		"a file too short": {func(c log.CopyEntry) (log.CopyEntry, error) {
			if c.Name == "clean" {
				c.Size++
			}
			return c, nil
		}, "clean has "},
		"out of the directory": {func(c log.CopyEntry) (log.CopyEntry, error) {
			if c.Name == "clean" {
				c.Name = "../clean"
			}
			return c, nil
		}, `name "../clean"`},
		"another file": {func(c log.CopyEntry) (log.CopyEntry, error) {
			if c.Name == "clean" {
				c.Name = "lock"
			}
			return c, nil
		}, `name "lock"`},
		"twice": {func(c log.CopyEntry) (log.CopyEntry, error) {
			if c.Name == "clean" {
				c.Name = "partitions/00/manifest"
			}
			return c, nil
		}, "unexpected or duplicate name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, harm.change, harm.says)
		})
	}
}

// refused receives a copy and passes each file to change. It checks that this fails and leaves
// nothing.
func refused(t *testing.T, change func(log.CopyEntry) (log.CopyEntry, error), says string) {
	dir := filepath.Join(t.TempDir(), "copy")
	in, err := tools.Receive(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = putCopy(t, func(c log.CopyEntry) error {
		c, err := change(c)
		if err != nil {
			return err
		}
		return in.Put(c.Name, c.Size, c.Contents)
	})
	var said bytes.Buffer
	if err == nil {
		_, err = in.Finish(&said)
		if !strings.Contains(said.String(), "DAMAGED partition 0 file ") {
			t.Errorf("it says %q", said.String())
		}
	}
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%v; want err != nil && strings.Contains(err.Error(), says)", err)
	}
	if err := in.Drop(); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v %v", list, err)
	}
}
