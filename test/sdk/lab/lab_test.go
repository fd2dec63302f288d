package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

// fakeProcess is a broker that only echoes, and remembers what was done to it.
type fakeProcess struct {
	echo   *echo
	done   []string
	refuse error // of Start
	stderr string
}

func (p *fakeProcess) Start() (time.Duration, error) {
	p.done = append(p.done, "start")
	return 0, p.refuse
}

func (p *fakeProcess) Kill() error {
	p.done = append(p.done, "kill")
	return nil
}

func (p *fakeProcess) Stop() error {
	p.done = append(p.done, "stop")
	return nil
}

func (p *fakeProcess) ConnectionString() string {
	_, port, _ := net.SplitHostPort(p.echo.addr)
	return "Endpoint=sb://localhost:" + port + ";SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true;"
}

func (p *fakeProcess) Authority() string { return "ca.pem" }

func (p *fakeProcess) Stderr() string { return p.stderr }

func startLab(t *testing.T) (*Lab, *fakeProcess) {
	t.Helper()
	p := &fakeProcess{echo: startEcho(t)}
	l, err := New(exampleList(t), t.TempDir(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, p
}

// ask makes a request of the control API and returns the status and the answer.
func ask(t *testing.T, l *Lab, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, l.control+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestLabLeadsToTheProxy(t *testing.T) {
	t.Parallel()
	l, p := startLab(t)
	_, port, _ := net.SplitHostPort(l.proxy.Addr())
	if want := fmt.Sprintf("Endpoint=sb://localhost:%s;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true;", port); l.ConnectionString() != want {
		t.Errorf("%s, want %s", l.ConnectionString(), want)
	}
	if l.ConnectionString() == p.ConnectionString() {
		t.Error("the proxy is passed by")
	}
	if want := fmt.Sprintf("Endpoint=sb://localhost:%s;SharedAccessKeyName=n;SharedAccessKey=k;", port); l.TLSConnectionString() != want {
		t.Errorf("%s, want %s", l.TLSConnectionString(), want)
	}
	dial(t, l.proxy.Addr())
}

func TestKill(t *testing.T) {
	t.Parallel()
	l, p := startLab(t)
	if status, text := ask(t, l, "POST", "/kill", ""); status != http.StatusOK || !strings.Contains(text, `"milliseconds":`) {
		t.Errorf("%d %s; want status == http.StatusOK && strings.Contains(text, `\"milliseconds\":`)", status, text)
	}
	// the second keeps the first
	for _, body := range []string{`{"lock-one": {"Status": "Disabled"}}`, `{"lock-one": {"MaxDeliveryCount": 3}}`} {
		if status, text := ask(t, l, "POST", "/kill", body); status != http.StatusOK {
			t.Errorf("%d %s; want status == http.StatusOK", status, text)
		}
	}
	text, err := os.ReadFile(filepath.Join(l.dir, entitiesFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Status": "Disabled"`, `"MaxDeliveryCount": 3`, `"LockDuration": "PT5S"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	before := slices.Clone(p.done)
	if status, text := ask(t, l, "POST", "/kill", `{"nowhere": {}}`); status != http.StatusInternalServerError || !strings.Contains(text, `"nowhere"`) {
		t.Errorf("a queue that is not there: %d %s", status, text)
	}
	if status, text := ask(t, l, "POST", "/kill", `[]`); status != http.StatusBadRequest {
		t.Errorf("a body that is none: %d %s", status, text)
	}
	if want := []string{"start", "kill", "start", "kill", "start", "kill", "start"}; !slices.Equal(before, want) || !slices.Equal(p.done, want) {
		t.Errorf("%v, then %v, want %v", before, p.done, want)
	}
	p.refuse = errors.New("a fault on disk")
	if status, text := ask(t, l, "POST", "/kill", ""); status != http.StatusInternalServerError || !strings.Contains(text, "a fault on disk") {
		t.Errorf("a broker that does not start: %d %s", status, text)
	}
}

// Settings of a restart hold until the next start, whatever that is for.
func TestRestart(t *testing.T) {
	t.Parallel()
	l, p := startLab(t)
	for _, step := range []struct{ path, body, settings string }{
		{"/restart", `{"limits": {"link-idle": "2s", "links": 7}}`, `{"limits":{"link-idle":"2s","links":7}}`},
		{"/restart", "", "{}"},
		{"/restart", `{"limits": {"links": 8}}`, `{"limits":{"links":8}}`},
		{"/kill", "", "{}"},
	} {
		if status, text := ask(t, l, "POST", step.path, step.body); status != http.StatusOK || !strings.Contains(text, `"milliseconds":`) {
			t.Errorf("%s %s: %d %s; want status == http.StatusOK && strings.Contains(text, `\"milliseconds\":`)", step.path, step.body, status, text)
		}
		text, err := os.ReadFile(filepath.Join(l.dir, settingsFile))
		if got := strings.Join(strings.Fields(string(text)), ""); err != nil || got != step.settings {
			t.Errorf("after %s %s: %s, %v", step.path, step.body, got, err)
		}
	}
	if want := []string{"start", "stop", "start", "stop", "start", "stop", "start", "kill", "start"}; !slices.Equal(p.done, want) {
		t.Errorf("%v, want %v", p.done, want)
	}
	if status, text := ask(t, l, "POST", "/restart", `7`); status != http.StatusBadRequest {
		t.Errorf("a body that is none: %d %s", status, text)
	}
}

func TestCutAndNow(t *testing.T) {
	t.Parallel()
	l, _ := startLab(t)
	c := dial(t, l.proxy.Addr())
	if status, text := ask(t, l, "POST", "/cut", ""); status != http.StatusOK || strings.TrimSpace(text) != `{"connections":1}` {
		t.Errorf("%d %s; want status == http.StatusOK && strings.TrimSpace(text) == `{\"connections\":1}`", status, text)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is alive")
	}
	status, text := ask(t, l, "GET", "/now", "")
	var now struct {
		Now              time.Time
		UnixMilliseconds int64
	}
	if err := json.Unmarshal([]byte(text), &now); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v; want status == http.StatusOK", status, text, err)
	}
	if now.Now.UnixMilli() != now.UnixMilliseconds || time.Since(now.Now) > time.Minute {
		t.Errorf("%s; want now.Now.UnixMilli() == now.UnixMilliseconds && time.Since(now.Now) <= time.Minute", text)
	}
	if status, _ := ask(t, l, "GET", "/kill", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("GET /kill: %d", status)
	}
}

func TestLabThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	p := &fakeProcess{echo: startEcho(t), refuse: errors.New("a bad entity file")}
	if _, err := New(exampleList(t), t.TempDir(), p); !errors.Is(err, p.refuse) {
		t.Errorf("%v; want errors.Is(err, p.refuse)", err)
	}
	if want := []string{"start", "stop"}; !slices.Equal(p.done, want) {
		t.Errorf("%v, want %v", p.done, want)
	}
}

// A frame of a client with which the broker finds fault makes the suite fail, whichever of its runs
// it was in.
func TestProtocolFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := Open(harness.Build(t, dir), dir, exampleList(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, sent := range []string{"nonsense", "AMQP\x00\x00\x09\x01"} {
		c, err := net.Dial("tcp", l.proxy.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, sent); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, c) // until the broker has closed the connection
		_ = c.Close()
		if i == 0 {
			if err := l.kill(nil); err != nil {
				t.Error(err)
			}
		}
	}
	if err := l.Close(); err == nil || strings.Count(err.Error(), "protocol fault\"") != 2 || !strings.Contains(err.Error(), "2 protocol faults") {
		t.Errorf("closed with %v, not with two protocol faults", err)
	}
}

// Without one, what the broker says does not matter.
func TestNoProtocolFaults(t *testing.T) {
	t.Parallel()
	l, p := startLab(t)
	p.stderr = filepath.Join(l.dir, "stderr")
	if err := os.WriteFile(p.stderr, []byte("level=ERROR msg=\"servicebus: session ended\"\n"), 0o600); err != nil {
		t.Fatal(err)
	} // startLab closes it
}
