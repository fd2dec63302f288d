package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A command that follows lets others go first, all its threads, unless it is told not to: one that only reads everything else on the machine, one that
// syncs by a nice value (docs/decisions/0074).
func TestFollowersGiveWay(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	broker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer broker.Close()
	connection := "Endpoint=sb://" + strings.TrimPrefix(broker.URL, "http://") + ";SharedAccessKeyName=k;SharedAccessKey=s;UseDevelopmentEmulator=true;"
	mirror := func(args ...string) []string {
		return append([]string{"log", "mirror", "--into", filepath.Join(t.TempDir(), "mirror")}, args...)
	}
	for _, c := range []struct {
		args   []string
		policy uint32
		nice   int32
	}{
		{[]string{"events", "-f"}, unix.SCHED_IDLE, 0},
		{[]string{"events", "-f", "--priority", "normal"}, unix.SCHED_NORMAL, 0},
		{mirror(), unix.SCHED_NORMAL, 10},
		{mirror("--priority", "normal"), unix.SCHED_NORMAL, 0},
	} {
		cmd := command(t, connection, c.args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-asked:
		case err := <-ended:
			t.Fatalf("%q has asked nobody: %v", c.args, err)
		}
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				t.Fatal(err)
			}
			attr, err := unix.SchedGetAttr(id, 0)
			if err == nil && (attr.Policy != c.policy || attr.Nice != c.nice) { // a thread may have ended
				t.Errorf("%q: a thread has policy %d and nice value %d, not %d and %d", c.args, attr.Policy, attr.Nice, c.policy, c.nice)
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}
