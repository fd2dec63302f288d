package ledger

import (
	"archive/tar"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// A stream is an answer that is not JSON and is sent piece by piece.
type stream interface{ send(c *call) }

const (
	// stallTime is the time after which a backup ends whose client reads nothing.
	stallTime = time.Minute
	// backupChunk is the number of bytes sent at a time.
	backupChunk = 256 << 10
)

func (c *call) backup() (any, error) {
	if err := c.arguments(&struct{}{}); err != nil {
		return nil, err
	}
	b, err := c.h.Backups.Backup(c.Context(), c.origin(), c.why)
	if err != nil {
		return nil, err
	}
	return backup{b}, nil
}

// A backup is sent as a tar archive whose last file is namespace.json, so an archive that broke off
// leaves no valid data directory.
type backup struct{ engine.Backup }

func (b backup) send(c *call) {
	defer b.Close()
	head := c.w.Header()
	head.Set("Content-Type", wire.BackupType)
	head.Set(wire.BackupID, b.ID().String())
	head.Set(wire.BackupTime, b.At().Std().UTC().Format(time.RFC3339Nano))
	head.Set(wire.BackupBytes, strconv.FormatInt(b.Bytes(), 10))
	c.w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(c.w).Flush() // tells the client that the backup begins
	buf := make([]byte, backupChunk)
	out := tar.NewWriter(patient{c})
	err := b.Files(c.Context(), func(name string, size int64, contents io.Reader) error {
		h := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: b.At().Std()}
		if contents == nil {
			h.Typeflag, h.Name, h.Mode, h.Size = tar.TypeDir, name+"/", 0o700, 0
		}
		if err := out.WriteHeader(&h); err != nil || contents == nil {
			return err
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{contents}, buf)
		if err == nil && n != size {
			err = fmt.Errorf("%s has %d bytes, not %d", name, n, size)
		}
		return err
	})
	if err == nil {
		err = out.Close()
	}
	if err != nil { // the client must not mistake it for a complete archive
		c.h.Logger.Warn("ledger: backup broke off", "id", b.ID(), "error", err)
		panic(http.ErrAbortHandler)
	}
}

// A patient writes to a client that may be slow. Only a single piece may not take longer than
// stallTime.
type patient struct{ c *call }

func (p patient) Write(b []byte) (int, error) {
	p.c.extendDeadlines(stallTime)
	return p.c.w.Write(b)
}
