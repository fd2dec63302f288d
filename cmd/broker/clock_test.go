package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// directoryOf creates a data directory whose newest event has the given time.
func directoryOf(t *testing.T, newest time.Time) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	d := logdir.Open(t, dir, log.Options{})
	for _, id := range d.Partitions() {
		_, w := d.Lead(id)
		d.Append(w, event.TimeOf(newest.Add(-time.Duration(id)*time.Second)), &event.OriginDefined{ID: 1})
	}
	d.Close()
	return dir
}

// reliability.md 1.4: tests which clocks a start refuses, its error text, and where broker time
// continues with --accept-clock.
func TestClockOfAStart(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		newest  time.Duration // of the log, from now on
		more    map[string][]string
		refused string        // "": it starts
		begins  time.Duration // broker time, from now on
		notice  string        // "": none
	}{
		"a new event":                  {newest: -time.Second},
		"a little ahead":               {newest: 30 * time.Minute, begins: 30 * time.Minute},
		"too far ahead":                {newest: 2 * time.Hour, refused: "before the newest event"},
		"ahead, by the clock":          {newest: 2 * time.Hour, more: map[string][]string{"accept-clock": {"wall"}}, notice: "set to the clock"},
		"ahead, by the log":            {newest: 2 * time.Hour, more: map[string][]string{"accept-clock": {"log"}}, begins: 2 * time.Hour, notice: "from the log"},
		"ten years ahead, by the wall": {newest: 3650 * day, more: map[string][]string{"accept-clock": {"wall"}}, notice: "set to the clock"},
		"a short downtime":             {newest: -9 * time.Minute},
		"a downtime":                   {newest: -2 * time.Hour, notice: "The clock is 2h0m0s ahead"},
		"a long downtime":              {newest: -399 * day, notice: "The clock is 399 days ahead"},
		"too long":                     {newest: -401 * day, refused: "after the newest event"},
		"too long, and allowed":        {newest: -401 * day, more: map[string][]string{"clock.max-gap": {"10000h"}}, notice: "The clock is 401 days ahead"},
		"too long for the settings":    {newest: -3 * time.Hour, more: map[string][]string{"clock.max-gap": {"2h"}}, refused: "after the newest event"},
		"too long, by the log":         {newest: -401 * day, more: map[string][]string{"accept-clock": {"log"}}, begins: -401 * day, notice: "from the log"},
		"too long, by the wall":        {newest: -401 * day, more: map[string][]string{"accept-clock": {"wall"}}, notice: "set to the clock"},
		"nothing to accept":            {newest: -time.Second, more: map[string][]string{"accept-clock": {"wall"}}, notice: "was not needed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			dir := directoryOf(t, now.Add(c.newest))
			before := tree(t, dir)
			given := load(t, dir, c.more)
			given.TLS.From = "off" // a certificate is created before the log is read
			srv, err := Start(t.Context(), given)
			if c.refused != "" {
				problems := settings.Problems(nil)
				if !errors.As(err, &problems) || problems[0].Where != "clock" || !strings.Contains(err.Error(), c.refused) ||
					!strings.Contains(err.Error(), "--accept-clock=wall") || !strings.Contains(err.Error(), "--accept-clock=log") {
					t.Errorf("refused with %v", err)
				}
				if tree(t, dir) != before {
					t.Error("the refused start wrote something")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			if off := srv.Engine().Now().Std().Sub(now.Add(c.begins)); off < -10*time.Second || off > time.Minute {
				t.Errorf("broker time begins %v off", off)
			}
			notices := healthOf(t, srv)
			if len(notices) != min(len(c.notice), 1) || c.notice != "" && !strings.Contains(notices[0], c.notice) {
				t.Errorf("/health says %q, want %q", notices, c.notice)
			}
			if err := srv.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := Start(t.Context(), load(t, dir, nil))
			if far := c.begins > time.Hour || c.begins < -400*day; far != (err != nil) {
				t.Errorf("the start after it: %v", err)
			}
			if err == nil {
				again.Close()
			}
		})
	}
}

// A reason can be given with the decision about a clock. The log of every partition contains it
// with the change, and no log contains it if no decision was needed.
func TestReasonOfAClock(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]int{2 * time.Hour: 4, -time.Second: 0} {
		dir := directoryOf(t, time.Now().Add(ahead))
		must(t, start(t, load(t, dir, map[string][]string{"accept-clock": {"wall"}, "reason": {"the battery was flat"}})).Close())
		var dump bytes.Buffer
		must(t, tools.Dump(&dump, dir, tools.DumpOptions{Partition: -1}))
		said, before := 0, ""
		for line := range strings.Lines(dump.String()) {
			if strings.Contains(line, " ReasonGiven ") {
				said++
				if !strings.Contains(before, " ClockSet ") || !strings.Contains(line, `Reason="the battery was flat"`) {
					t.Errorf("%s%s; want strings.Contains(before, \" ClockSet \") && strings.Contains(line, `Reason=\"the battery was flat\"`)", before, line)
				}
			}
			before = line
		}
		if said != want {
			t.Errorf("%v ahead: said %d times\n%s", ahead, said, dump.String())
		}
	}
}

// healthOf returns the notices of /health.
func healthOf(t *testing.T, srv *Server) []string {
	t.Helper()
	answer, err := http.Get("http://" + srv.Addrs()[0].String() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var said struct {
		Status  string
		Notices []string
	}
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil || said.Status != "healthy" {
		t.Fatalf(`%+v, %v; want said.Status == "healthy"`, said, err)
	}
	return said.Notices
}

// A directory without events contains no time to continue from.
func TestClockBeforeTheBuild(t *testing.T) {
	t.Parallel()
	rules := host.ClockRules{Earliest: earliest, Accept: host.AcceptWall}
	if err := rules.Early(time.Unix(1, 0)); err == nil {
		t.Error("1970 is accepted")
	}
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.time", Value: "2031-02-03T04:05:06Z"}}}
	for want, given := range map[time.Time]*debug.BuildInfo{
		time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC): info,
		earliest: {Settings: []debug.BuildSetting{{Key: "vcs.time", Value: "1999-02-03T04:05:06Z"}}},
	} {
		if got := buildTime(given, true); !got.Equal(want) {
			t.Errorf("built %v, want %v", got, want)
		}
	}
	if got := buildTime(nil, false); !got.Equal(earliest) {
		t.Errorf("built %v", got)
	}
}

var errNotLive, errNotReady = errors.New("not live"), errors.New("not ready")

// failingProbes is a broker that fails its probes.
type failingProbes struct{}

func (failingProbes) Live() error  { return errNotLive }
func (failingProbes) Ready() error { return errNotReady }

// While the gate is closed no client is served, and /health reports it.
func TestGate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := newGate(1, ctx.Done())
	if err := g.Health(ctx); !errors.Is(err, errStarting) {
		t.Errorf("%+v; want errors.Is(err, errStarting)", err)
	}
	if err := g.Ready(ctx); !errors.Is(err, errStarting) { // MA-160
		t.Errorf("ready while it starts: %v", err)
	}
	if err := g.Live(ctx); err != nil { // MA-159
		t.Errorf("not live while it starts: %v", err)
	}
	first := make(chan bool)
	go func() { first <- g.wait() }()
	for g.waiting.Load() == 0 {
	}
	if g.wait() {
		t.Error("more wait than may")
	}
	g.open(nil, http.NotFoundHandler(), func(context.Context) error { return nil }, failingProbes{}, nil)
	if !<-first {
		t.Error("who waited is not let in")
	}
	if err := g.Health(ctx); err != nil {
		t.Error(err)
	}
	if err := g.Ready(ctx); !errors.Is(err, errNotReady) {
		t.Errorf("ready: %v", err)
	}
	if err := g.Live(ctx); !errors.Is(err, errNotLive) {
		t.Errorf("live: %v", err)
	}
	closed := newGate(9, ctx.Done())
	cancel()
	if closed.wait() {
		t.Error("let in to a broker that closes")
	}
}

// The notices of a start are shown at once, while all other requests wait.
func TestHealthBeforeTheGateOpens(t *testing.T) {
	t.Parallel()
	srv := newServer(load(t, t.TempDir(), nil))
	if err := srv.bind(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.notices = []string{"down for two hours"}
	srv.listen()
	defer srv.Close()
	for path, want := range map[string]string{"/health": `"notices":["down for two hours"]`, "/orders": "starting"} {
		answer, err := http.Get("http://" + srv.Addrs()[0].String() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s, %v; want answer.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), want)", path, answer.StatusCode, text, err)
		}
	}
}
