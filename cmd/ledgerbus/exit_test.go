package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything else"), 1},
		{&client.Error{Op: "send", Text: "refused"}, 1},
		{usageError{errors.New("x")}, 2},
		{settings.Problems{{Text: "x"}}, 2},
		{&broker.ListenError{Address: "a", Err: syscall.EADDRINUSE}, 2},
		{log.ErrInUse, 3},
		{log.ErrChanged, 3},
		{&log.CorruptError{Reason: "x"}, 4},
		{&log.CorruptError{Reason: "x", Cause: &fs.PathError{Err: syscall.EIO}}, 4},
		{errDamaged, 4},
		{&fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EROFS}, 5},
		{log.ErrPoisoned, 5},
		{log.ErrNoRoom, 5},
		{engine.ErrUnknown, 5},
		{fmt.Errorf("%w: %w", errInternal, errors.New("x")), 6},
		{host.ErrInternal, 6},
		{fmt.Errorf("%w: %w", log.ErrPoisoned, log.ErrInternal), 6},
		{log.ErrFormat, 7},
	} {
		for _, err := range []error{c.err, fmt.Errorf("engine: %w", c.err), errors.Join(c.err, nil)} {
			if c.err == nil {
				err = nil
			}
			if got := exitCode(err); got != c.want {
				t.Errorf("%v: exit code %d, want %d", err, got, c.want)
			}
		}
	}
}

// damage changes one byte in the middle of every file of a folder.
func damage(t *testing.T, folder string) {
	t.Helper()
	changed := 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			return err
		}
		data[len(data)/2] ^= 0x55
		changed++
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || changed == 0 {
		t.Fatalf("%d files changed, %v", changed, err)
	}
}

func TestDamageIsExitCode4(t *testing.T) {
	data := t.TempDir()
	s, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {data}, "listen": {"127.0.0.1:0"}, "queue": {"orders"}}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := broker.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dump", "verify"} {
		if r := execute(t, "", "", "log", name, data); r.code != 0 || !strings.HasPrefix(r.errOut, "partition 0: read up to durable LSN ") {
			t.Errorf("%s beside a broker: %+v", name, r)
		}
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, "", "", "log", "verify", data); r.code != 0 || r.errOut != "" {
		t.Errorf("verify: %+v", r)
	}
	if r := execute(t, "", "", "log", "dump", data, "-o", "json"); r.code != 0 || !strings.Contains(r.out, "EntityCreated") {
		t.Errorf("dump: %+v", r)
	}
	damage(t, filepath.Join(data, "partitions", "00", "wal"))
	if r := execute(t, "", "", "serve", "--data", data, "--listen", "127.0.0.1:0"); r.code != 4 || r.out != "" || !strings.Contains(r.errOut, "\nledgerbus: log: partition 0: ") {
		t.Errorf("serve: %+v", r)
	}
	if r := execute(t, "", "", "log", "verify", data); r.code != 4 || !strings.Contains(r.out, "partitions/00/wal") || r.errOut != "ledgerbus: the log is damaged\n" {
		t.Errorf("verify: %+v", r)
	}
	if r := execute(t, "", "", "log", "dump", data); r.code != 4 {
		t.Errorf("dump: %+v", r)
	}
	if r := execute(t, "", "", "log", "dump", data+"/none"); r.code != 2 {
		t.Errorf("dump of nothing: %+v", r)
	}
}

// A broker that is stopped while it reads its log has not failed.
func TestServeIsStoppedWhileStarting(t *testing.T) {
	s, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {t.TempDir()}, "listen": {"127.0.0.1:0"}, "queue": {"orders"}}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := broker.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	before := slog.Default()
	defer slog.SetDefault(before)
	var said, out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(ctx, s, nil, &out); err != nil || out.Len() > 0 {
		t.Errorf("%v, %q; want out.Len() <= 0", err, &out)
	}
	if text := said.String(); !strings.Contains(text, `level=INFO msg="stopped while starting"`) || strings.Contains(text, "level=ERROR") {
		t.Errorf("%+v; want strings.Contains(text, `level=INFO msg=\"stopped while starting\"`) && !strings.Contains(text, \"level=ERROR\")", text)
	}
	for err, want := range map[error]bool{
		context.Canceled: true, fmt.Errorf("engine: %w", context.Canceled): true, errors.New("x"): false, nil: false,
		errors.Join(context.Canceled, &fs.PathError{Err: syscall.EIO}): false, log.ErrInUse: false,
	} {
		if wasStopped(ctx, err) != want {
			t.Errorf("%v: stopped is not %t", err, want)
		}
		if wasStopped(t.Context(), err) {
			t.Errorf("%v: nobody said stop", err)
		}
	}
}

func TestServeCannotMakeItsDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, "", "", "serve", "--data", filepath.Join(file, "data"), "--listen", "127.0.0.1:0"); r.code != 5 || r.out != "" {
		t.Errorf(`%+v; want r.code == 5 && r.out == ""`, r)
	}
}

// process is a broker in a separate process.
type process struct {
	*exec.Cmd
	text       string // output when it was ready
	connection string
	errOut     bytes.Buffer // not to be looked at before it has ended
}

// startProcess starts a broker on a directory and waits until it serves the queue.
func startProcess(t *testing.T, data string) *process {
	t.Helper()
	p := &process{Cmd: command(t, "", "serve", "--data", data, "--listen", "127.0.0.1:0", "--queue", "orders")}
	p.Stderr = &p.errOut
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(30*time.Second, func() { _ = p.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		p.text += lines.Text() + "\n"
		if _, text, ok := strings.Cut(lines.Text(), "connection string"); ok {
			p.connection = strings.TrimSpace(text)
		}
		if strings.Contains(lines.Text(), "queues") { // the last line: it serves now
			return p
		}
	}
	t.Fatalf("it did not serve: %v\n%s", p.Wait(), p.errOut.String())
	return nil
}

// F9, F12: an idle broker whose directory disappears ends with code 5 and reports the reason.
func TestServeLosesItsDirectory(t *testing.T) {
	data := t.TempDir()
	p := startProcess(t, data)
	if err := os.Rename(filepath.Join(data, "partitions"), filepath.Join(data, "gone")); err != nil {
		t.Fatal(err)
	}
	// Its files are open, so this succeeds unless it comes late; within a second the broker has to
	// note how far the log is durable.
	execute(t, p.connection, "", "send", "orders", "--body", "x")
	err := p.Wait()
	if text := p.errOut.String(); p.ProcessState.ExitCode() != exitIO || !strings.Contains(text, "\nledgerbus: engine: partition ") || !strings.Contains(text, "progress note: ") {
		t.Errorf("%v\n%s; want p.ProcessState.ExitCode() == exitIO && strings.Contains(text, \"\\nledgerbus: engine: partition \") && strings.Contains(text, \"progress note: \")", err, text)
	}
}

// F1, F3: after a kill a start reports messages, locks, and the beginning of a frame that was being
// written.
func TestServeAfterAKill(t *testing.T) {
	data := t.TempDir()
	p := startProcess(t, data)
	if r := execute(t, p.connection, "", "send", "orders", "--body", "x", "--count", "3"); r.code != 0 {
		t.Fatalf("%+v; want r.code == 0", r)
	}
	if list := messages(t, execute(t, p.connection, "", "receive", "orders", "-o", "json")); len(list) != 1 {
		t.Fatalf("received %v", list)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	segments, err := filepath.Glob(filepath.Join(data, "partitions", "00", "wal", "*", "*"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v, %v; want len(segments) == 1", segments, err)
	}
	log, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	end := (len(bytes.TrimRight(log, "\xff")) + 7) &^ 7
	if end+8 > len(log) {
		t.Fatalf("no room behind %d bytes of %d", end, len(log))
	}
	copy(log[end:], "\xf0\x01\x00\x00\x00\x00\x00\x00")
	if err := os.WriteFile(segments[0], log, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{
		"the last run did not end cleanly; 8 B of unacknowledged data at the end were set aside",
		"the last run did not end cleanly",
	} {
		p = startProcess(t, data)
		want := regexp.MustCompile(`(?m)^  recovered          3 messages \(1 locked\) from [0-9.]+ KiB of log in [0-9.]+m?s; ` + end + `$`)
		if !want.MatchString(p.text) {
			t.Errorf("not %v in\n%s", want, p.text)
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait()
	}
}

// as is an event that is written as another kind.
type as struct {
	event.Event
	kind event.Kind
}

func (e as) Kind() event.Kind { return e.kind }

// F21, R11: an intact frame contains a record that no start accepts. The start, log verify and log
// dump name partition, frame and record in the same words, and the problem: the record does not fit
// the state (which dump does not have), cannot be decoded, or is a newer program's.
func TestServeFindsANonsensicalEvent(t *testing.T) {
	completed := &event.MessageCompleted{Envelope: event.Envelope{Slice: event.Slice{Entity: 9}}, Sequence: 3}
	for _, c := range []struct {
		bad          event.Event
		reason       string
		serve        int
		prefix       string // of what serve says
		verify, dump int
	}{
		{completed, "index: *event.MessageCompleted of message 3 in slice 9/0, which does not exist", exitInternal, "engine: internal fault: ", exitCorruption, exitWell},
		{as{completed, event.KindMessageScheduled}, "3 bytes follow the last record", exitInternal, "engine: internal fault: ", exitCorruption, exitCorruption},
		{as{completed, 200}, "event: unknown event: kind 200 version 1", exitFormat, "engine: ", exitFormat, exitFormat},
	} {
		data := t.TempDir()
		d := logdir.Open(t, data, log.Options{})
		_, w := d.Lead(2)
		d.Append(w, 1, c.bad)
		d.Close()
		place := "partition 2: frame 144: record 1: "
		want := func(r result, code int, text string) {
			t.Helper()
			if r.code != code || !strings.Contains("\n"+r.errOut+r.out, text) {
				t.Errorf("exit code %d, want %d and %q in\n%s%s", r.code, code, text, r.errOut, r.out)
			}
		}
		want(execute(t, "", "", "serve", "--data", data, "--listen", "127.0.0.1:0"), c.serve, "\nledgerbus: "+c.prefix+place+c.reason+"\n")
		byTools := map[int]string{
			exitWell:       " MessageCompleted ",
			exitCorruption: "byte 136 (LSN 144): record 1: " + c.reason + "\n",
			exitFormat:     "\nledgerbus: tools: " + place + c.reason + "\n",
		}
		want(execute(t, "", "", "log", "dump", data), c.dump, byTools[c.dump])
		byTools[exitCorruption] = fmt.Sprintf("byte 136 LSN 144: %q\n", "record 1: "+c.reason)
		want(execute(t, "", "", "log", "verify", data), c.verify, byTools[c.verify])
	}
}

// reliability.md 1.4: a start with a refused clock ends with exit code 2 and says what to do. With
// --accept-clock it starts; the next start is refused again.
func TestServeRefusesAClock(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	d := logdir.Open(t, data, log.Options{})
	_, w := d.Lead(0)
	d.Append(w, event.TimeOf(time.Now().Add(87600*time.Hour)), &event.OriginDefined{ID: 1})
	d.Close()
	args := []string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--tls", "off"}
	for range 2 {
		r := execute(t, "", "", args...)
		if r.code != 2 || r.out != "" || !strings.Contains(r.errOut, "ledgerbus: clock: the machine's clock shows ") || !strings.Contains(r.errOut, "--accept-clock=wall") {
			t.Fatalf(`%+v; want r.code == 2 && r.out == "" && strings.Contains(r.errOut, "ledgerbus: clock: the machine's clock shows ") && strings.Contains(r.errOut, "--accept-clock=wall")`, r)
		}
	}
	if r := execute(t, "", "", "log", "verify", data); r.code != 0 {
		t.Errorf("verify: %+v", r)
	}
	startBroker(t, "data", data, "accept-clock", "wall")
}
