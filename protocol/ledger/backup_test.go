package ledger

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// Backup implements [engine.Backups].
func (f *fake) Backup(ctx context.Context, by *engine.Origin, why event.ReasonGiven) (engine.Backup, error) {
	if err := f.act(ctx, by, why); err != nil {
		return nil, err
	}
	return fakeBackup{f}, nil
}

// fakeBackup has two files; the second breaks off where the fake says so.
type fakeBackup struct{ f *fake }

func (fakeBackup) ID() event.BackupID { return event.BackupID{0xab} }
func (fakeBackup) At() event.Time     { return start }
func (fakeBackup) Bytes() int64       { return 12 }
func (b fakeBackup) Close()           { b.f.closed++ }

func (b fakeBackup) Files(_ context.Context, put func(string, int64, io.Reader) error) error {
	if err := put("partitions", 0, nil); err != nil {
		return err
	}
	if err := put("clean", 5, strings.NewReader("hello")); err != nil {
		return err
	}
	if b.f.breaks {
		return errors.New("the disk is gone")
	}
	return put("namespace.json", 7, strings.NewReader("{\"a\":1}"))
}

// TestBackup: a backup is a tar archive that names its source; an archive that breaks off is not
// taken for a complete one.
func TestBackup(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.fake.fail = engine.Refuse(engine.Busy, "Another backup is being made.")
	a.refused(a.do("POST", "/$ledger/v1/backup", ""), 503, "busy", "Another backup")
	a.refused(a.do("POST", "/$ledger/v1/backup", `{"into":"x"}`), 400, "invalid", "unknown field")
	srv := httptest.NewServer(a.h)
	defer srv.Close()
	ask := func() *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/$ledger/v1/backup", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", sign("sb://"+host, "ops", rootKey))
		r.Header.Set(caller.ReasonHeader, "INC-4711")
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	res := ask()
	if id, at, n := res.Header.Get("X-Ledgerbus-Backup-Id"), res.Header.Get("X-Ledgerbus-Backup-Time"), res.Header.Get("X-Ledgerbus-Backup-Bytes"); res.StatusCode != 200 || n != "12" ||
		id != "ab000000-0000-0000-0000-000000000000" || at != "2026-01-01T00:00:00Z" || res.Header.Get("Content-Type") != "application/x-tar" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if a.fake.why.Reason != "INC-4711" || a.fake.by.Principal != "ops" {
		t.Errorf(`%+v %+v; want a.fake.why.Reason == "INC-4711" && a.fake.by.Principal == "ops"`, a.fake.why, a.fake.by)
	}
	in := tar.NewReader(res.Body)
	var got []string
	for h, err := in.Next(); err != io.EOF; h, err = in.Next() {
		if err != nil {
			t.Fatal(err)
		}
		p, err := io.ReadAll(in)
		if err != nil || h.Mode&0o077 != 0 || int64(len(p)) != h.Size {
			t.Errorf("%+v: %q %v", h, p, err)
		}
		got = append(got, h.Name+"="+string(p))
	}
	if s := strings.Join(got, " "); s != `partitions/= clean=hello namespace.json={"a":1}` {
		t.Errorf("got %s", s)
	}
	a.fake.breaks = true
	if p, err := io.ReadAll(ask().Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes of a backup that broke off: %v", len(p), err)
	}
	srv.Close() // the handlers are done
	if a.fake.closed != 2 {
		t.Errorf("%d of 2 backups are closed", a.fake.closed)
	}
}
