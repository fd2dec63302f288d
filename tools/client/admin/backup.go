package admin

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// backupStall is the longest time without data before a backup is given up: first its loops must
// stop together, then its disk is read.
const backupStall = 2 * time.Minute

// A Backup is a copy of a broker's data directory that is being received.
type Backup struct {
	ID    string    // contained in the marks in the logs
	Time  time.Time // of the marks
	Bytes int64     // approximate size of the copy

	op   string
	body io.Reader
	end  context.CancelFunc
}

// Backup requests a copy of the data directory as it is now. The caller must close it.
func (c *Client) Backup(ctx context.Context) (*Backup, error) {
	r := request{op: "backup", method: http.MethodPost, path: wire.Prefix[1:] + "/v1/backup", own: true}
	ctx, cancel := context.WithCancelCause(ctx)
	watch := time.AfterFunc(backupStall, func() { cancel(context.DeadlineExceeded) })
	end := func() { watch.Stop(); cancel(nil) }
	b, err := c.openBackup(ctx, r)
	if err != nil {
		end()
		return nil, err
	}
	body := b.body.(io.ReadCloser)
	b.body = watchedBody{ctx, body, watch, backupStall}
	b.end = func() { end(); body.Close() }
	return b, nil
}

func (c *Client) openBackup(ctx context.Context, r request) (*Backup, error) {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, &Error{Op: r.op, Text: err.Error(), cause: err}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.noAnswer(r.op, err)
	}
	b := &Backup{op: r.op, body: res.Body, ID: res.Header.Get(wire.BackupID)}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && kind == wire.BackupType {
		b.Bytes, err = strconv.ParseInt(res.Header.Get(wire.BackupBytes), 10, 64)
		if err == nil {
			b.Time, err = time.Parse(time.RFC3339Nano, res.Header.Get(wire.BackupTime))
		}
		if err == nil && b.Bytes >= 0 && len(b.ID) == 36 {
			return b, nil
		}
		res.Body.Close()
		return nil, invalidAnswer(r.op, errors.New("the headers of a backup are missing"))
	}
	defer res.Body.Close()
	src, err := io.ReadAll(io.LimitReader(res.Body, int64(document.ResponseLimits.Bytes)+1))
	switch {
	case err != nil:
		return nil, c.noAnswer(r.op, err)
	case res.StatusCode == http.StatusOK:
		return nil, explainForeign(invalidAnswer(r.op, fmt.Errorf("unexpected content type %q", kind)), src)
	}
	return nil, explainForeign(refusal(r.op, res.StatusCode, src), src)
}

// Files calls put for every file and directory of the copy. Names are relative to its directory,
// contain slashes, and are as the broker sent them, unchecked. contents is nil for a directory. If
// Files returns nil, the copy is complete.
func (b *Backup) Files(put func(name string, size int64, contents io.Reader) error) error {
	in := tar.NewReader(b.body)
	last := ""
	for {
		h, err := in.Next()
		switch {
		case err == io.EOF && last == "namespace.json":
			// the last entry, after everything it vouches for
			return nil
		case err == io.EOF:
			return b.interrupted(io.ErrUnexpectedEOF)
		case err != nil:
			return b.interrupted(err)
		}
		switch last = h.Name; h.Typeflag {
		case tar.TypeReg:
			file := &contentReader{in: in}
			if err := put(h.Name, h.Size, file); err != nil {
				if file.err != nil {
					return b.interrupted(file.err)
				}
				return err
			}
		case tar.TypeDir:
			if err := put(strings.TrimSuffix(h.Name, "/"), 0, nil); err != nil {
				return err
			}
		default:
			return invalidAnswer(b.op, fmt.Errorf("%q is not a file or a directory", h.Name))
		}
	}
}

// interrupted returns the error of an incomplete copy.
func (b *Backup) interrupted(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return &Error{Op: b.op, Text: "canceled before the copy was complete", cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Op: b.op, Text: fmt.Sprintf("no data received for %v", backupStall), cause: err}
	}
	return &Error{Op: b.op, Text: fmt.Sprintf("the copy was interrupted: %v", err), cause: err}
}

// Close releases the resources of the backup, here and in the broker.
func (b *Backup) Close() { b.end() }

// A watchedBody is the body of an answer. Its context ends if no data arrives for a time.
type watchedBody struct {
	ctx   context.Context
	body  io.Reader
	watch *time.Timer
	stall time.Duration
}

func (w watchedBody) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	w.watch.Reset(w.stall)
	if err != nil && err != io.EOF && w.ctx.Err() != nil {
		err = context.Cause(w.ctx)
	}
	return n, err
}

// A contentReader is the contents of a file; it records whether reading them failed.
type contentReader struct {
	in  io.Reader
	err error
}

func (f *contentReader) Read(p []byte) (int, error) {
	n, err := f.in.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
