package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/tools/bench/floor"
)

// startFloor runs a floor server until the test ends.
func startFloor(t *testing.T) Target {
	t.Helper()
	s, err := floor.Listen("127.0.0.1:0", floor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return Target{URL: s.URL(), Queue: "bench"}
}

func TestSendCountsEveryMessage(t *testing.T) {
	target := startFloor(t)
	for _, load := range []Load{
		{Count: 200, InFlight: 1},
		{Count: 3000, InFlight: 64},
		{Count: 3000, InFlight: 512, Connections: 2, Links: 3},
		{Count: 50, InFlight: 8, Size: 200_000}, // several frames each
	} {
		r, err := Send(t.Context(), target, load)
		if err != nil {
			t.Fatalf("%+v: %v", load, err)
		}
		if r.Messages != load.Count || r.Accepted != load.Count {
			t.Errorf("in flight %d: %d of %d messages counted, %d accepted", load.InFlight, r.Messages, load.Count, r.Accepted)
		}
		if r.Send.P50 <= 0 || r.Send.P50 > r.Send.P999 || r.Send.P999 > r.Send.Max {
			t.Errorf("in flight %d: latency %+v", load.InFlight, *r.Send)
		}
	}
}

func TestReceiveCountsEveryMessage(t *testing.T) {
	target := startFloor(t)
	for _, load := range []Load{{Count: 3000}, {Count: 3000, Connections: 2, Links: 2, Credit: 10, Acceptors: 100}, {Count: 100, Acceptors: 1}} {
		r, err := Receive(t.Context(), target, load)
		if err != nil {
			t.Fatalf("%+v: %v", load, err)
		}
		if r.Messages != load.Count || r.Complete.P50 <= 0 {
			t.Errorf("%d of %d messages counted, %+v", r.Messages, load.Count, *r.Complete)
		}
	}
}

func TestDurationEndsARun(t *testing.T) {
	target := startFloor(t)
	r, err := Both(t.Context(), target, Load{Duration: time.Second, ServerPID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if r.Messages == 0 || *r.Received == 0 || r.Seconds < 1 || r.Accepted < r.Messages {
		t.Errorf("result %+v", r)
	}
	if r.EndToEnd != nil {
		t.Error("messages that the server made up were taken for the run's own")
	}
}

func TestRateHoldsBack(t *testing.T) {
	target := startFloor(t)
	r, err := Send(t.Context(), target, Load{Count: 50, Rate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if r.PerSecond > 1100 {
		t.Errorf("%.0f sends a second instead of 1,000", r.PerSecond)
	}
}

func TestTokenIsShown(t *testing.T) {
	target := startFloor(t)
	host := strings.TrimPrefix(target.URL, "amqp://")
	for _, target := range []Target{
		{ConnectionString: "Endpoint=sb://" + host + ";SharedAccessKeyName=k;SharedAccessKey=s=;UseDevelopmentEmulator=true;EntityPath=bench"},
		{URL: "amqp://k:s@" + host, CBS: true, Queue: "bench"},
		{URL: "amqp://k:s@" + host, Queue: "bench"},
	} {
		if _, err := Send(t.Context(), target, Load{Count: 10}); err != nil {
			t.Error(err)
		}
	}
}

func TestBrokenTargets(t *testing.T) {
	for _, target := range []Target{
		{}, {URL: "http://localhost"}, {URL: "amqp://localhost", CBS: true}, {ConnectionString: "Endpoint=sb://localhost"},
		{URL: "amqp://secret:secret@%zz"},
	} {
		_, err := Send(t.Context(), target, Load{Count: 1})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf(`%+v: %v; want err != nil && !strings.Contains(err.Error(), "secret")`, target, err)
		}
	}
}

func TestServerThatGoesAwayEndsARun(t *testing.T) {
	s, err := floor.Listen("127.0.0.1:0", floor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	load := Load{Duration: time.Hour, Progress: func(done int64) {
		if done > 0 {
			select {
			case <-gone:
			default:
				close(gone)
			}
		}
	}}
	go func() { <-gone; s.Close() }()
	if _, err := Both(t.Context(), Target{URL: s.URL(), Queue: "bench"}, load); err == nil {
		t.Error("no error")
	}
}

func TestCancelEndsARun(t *testing.T) {
	target := startFloor(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Both(ctx, target, Load{Duration: time.Hour, Progress: func(int64) { cancel() }})
	if err == nil {
		t.Error("no error")
	}
}

func TestCommandPrintsJSON(t *testing.T) {
	target := startFloor(t)
	var out bytes.Buffer
	app := &cli.App{Name: "ledgerbench", Writer: &out, Commands: Commands()}
	if err := app.Run([]string{"ledgerbench", "send", "--url", target.URL, "--count", "100", "-o", "json"}); err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Messages != 100 {
		t.Errorf("%v: %s; want r.Messages == 100", err, out.String())
	}
}

func TestShareAddsUp(t *testing.T) {
	for total := range 20 {
		for n := 1; n < 8; n++ {
			var parts []int
			sum := 0
			for i := range n {
				parts = append(parts, share(total, i, n))
				sum += parts[i]
			}
			if sum != total || slices.Max(parts)-slices.Min(parts) > 1 {
				t.Errorf("%d among %d: %v", total, n, parts)
			}
		}
	}
}
