package admin

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// archive returns a tar archive with the named files; "name/" is a directory.
func archive(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		h := tar.Header{Name: name, Mode: 0o600, Size: int64(len(name)), Typeflag: tar.TypeReg}
		switch {
		case strings.HasSuffix(name, "/"):
			h.Typeflag, h.Size = tar.TypeDir, 0
		case name == "link":
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, "/etc/passwd", 0
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sends answers with the first bytes of a backup.
func sends(body []byte, n int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{"Content-Type": "application/x-tar", "X-Ledgerbus-Backup-Id": "ab000000-0000-0000-0000-000000000000",
			"X-Ledgerbus-Backup-Time": "2030-01-02T03:04:05.678Z", "X-Ledgerbus-Backup-Bytes": "4711"} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body[:n])
		if n < len(body) {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
}

func receive(ctx context.Context, ns *namespace) (string, error) {
	b, err := ns.Backup(ctx)
	if err != nil {
		return "", err
	}
	defer b.Close()
	got := fmt.Sprintf("%s %v %d:", b.ID[:2], b.Time, b.Bytes)
	err = b.Files(func(name string, size int64, contents io.Reader) error {
		if contents == nil {
			got += " " + name + "/"
			return nil
		}
		p, err := io.ReadAll(contents)
		if err == nil && int64(len(p)) != size {
			return fmt.Errorf("%s has %d bytes", name, len(p))
		}
		got += " " + string(p)
		return err
	})
	return got, err
}

// A backup is complete when its last file has arrived; anything else is an error.
func TestBackup(t *testing.T) {
	t.Parallel()
	whole := archive(t, "partitions/", "partitions/00/manifest", "namespace.json")
	const others = "; this command needs a Ledgerbus broker of this version or later"
	for name, c := range map[string]struct {
		answer    func(http.ResponseWriter, *http.Request)
		got, says string
	}{
		"whole":         {sends(whole, len(whole)), "ab 2030-01-02 03:04:05.678 +0000 UTC 4711: partitions/ partitions/00/manifest namespace.json", ""},
		"in a file":     {sends(whole, 1100), "", "backup: the copy was interrupted: "},
		"between files": {sends(whole, 512), "", "backup: the copy was interrupted: "},
		"without its end": {sends(archive(t, "partitions/"), len(archive(t, "partitions/"))), "",
			"backup: the copy was interrupted: unexpected EOF"},
		"a link":  {sends(archive(t, "link"), len(archive(t, "link"))), "", `backup: invalid answer: "link" is not a file or a directory`},
		"busy":    {answer(503, `{"error":{"code":"busy","message":"Another backup is being made."}}`), "", "backup: Another backup is being made. (status 503)"},
		"older":   {answer(404, `{"error":{"code":"not-found","message":"no"}}`), "", "backup: no (status 404)"},
		"another": {answer(200, "<feed/>"), "", "backup: invalid answer: unexpected content type "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := serve(t, c.answer)
			got, err := receive(t.Context(), ns)
			if c.says == "" && (err != nil || got != c.got) || c.says != "" && (err == nil || !strings.HasPrefix(err.Error(), c.says)) {
				t.Errorf("%s, %v; want %q, %q", got, err, c.got, c.says)
			}
			if name == "another" && !strings.HasSuffix(err.Error(), others) {
				t.Errorf("%v; want %q at its end", err, others)
			}
			if asked := strings.Join(ns.asked, " "); asked != "POST /$ledger/v1/backup" {
				t.Errorf("asked %s", asked)
			}
		})
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := receive(ended, serve(t)); err == nil || !strings.Contains(err.Error(), "canceled before") {
		t.Errorf(`%+v; want err != nil && strings.Contains(err.Error(), "canceled before")`, err)
	}
}
