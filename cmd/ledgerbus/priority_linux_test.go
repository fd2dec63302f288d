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

// A command that follows lets everything else on the machine go first, all its threads but the one that others may have to wait for (docs/decisions/0079),
// unless it is told not to.
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
		args  []string
		low   bool
		usual int // threads that keep their class all the same
	}{
		{[]string{"events", "-f"}, true, 0},
		{[]string{"events", "-f", "--priority", "normal"}, false, 0},
		{mirror(), true, 1},
		{mirror("--priority", "normal"), false, 0},
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
		usual, last := 0, 0
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				t.Fatal(err)
			}
			if attr, err := unix.SchedGetAttr(id, 0); err != nil { // it has ended
				continue
			} else if attr.Policy == unix.SCHED_IDLE {
				last++
			} else {
				usual++
			}
		}
		if c.low && (usual != c.usual || last < 2) || !c.low && last != 0 {
			t.Errorf("%q: %d threads have the usual class, %d the lowest", c.args, usual, last)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}
