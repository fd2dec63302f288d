package torture

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools"
)

// TestMirror kills a broker and the mirror that follows it, in turns, while messages are sent and
// received. In the end the entries of the mirror, read with the library alone, are line by line
// what log dump prints: nothing is missing, and nothing is there twice.
func TestMirror(t *testing.T) {
	r := newRig(t, harness.Build(t, t.TempDir()), entities, firstSeed(), *rounds)
	r.serves = func(rng *rand.Rand) time.Duration { return time.Duration(200+rng.IntN(800)) * time.Millisecond }
	m := &mirror{T: t, r: r, into: filepath.Join(t.TempDir(), "mirror"), rng: rand.New(rand.NewPCG(r.seed, 58)), over: make(chan struct{}), done: make(chan struct{})}
	go m.killing()
	r.run()
	close(m.over)
	<-m.done
	r.end()
	// what came with the end
	if out, err := exec.CommandContext(t.Context(), r.binary, "log", "mirror", r.data, "--into", m.into, "--once").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := 0
	for id := range 4 {
		all += m.compare(id)
	}
	t.Logf("%d kills of the broker and %d of the mirror, %d entries, all equal", r.figures.kills, m.kills, all)
	if all < 100 || m.kills < *rounds {
		t.Error("this run does not count: too little happened")
	}
}

// mirror is a process that mirrors the broker, and is killed again and again.
type mirror struct {
	*testing.T
	r          *rig
	into       string
	rng        *rand.Rand
	kills      int
	over, done chan struct{}
}

// killing has the mirror work for a moment, kills it and starts it again, until it is over.
func (m *mirror) killing() {
	defer close(m.done)
	for {
		cmd := exec.Command(m.r.binary, "log", "mirror", "--into", m.into, "--every", "20ms", "--connection-string", m.r.process.ConnectionString())
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			m.Error(err)
			return
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		enough, over := m.over, false
		// the broker has been killed often enough, and goes on until the mirror has as well
		if m.kills+1 < *rounds {
			enough = nil
		}
		select {
		case err := <-ended:
			m.Errorf("the mirror ended by itself: %v\n%s", err, &said)
			return
		case <-enough:
			over = true
		case <-time.After(time.Duration(100+m.rng.IntN(900)) * time.Millisecond):
		}
		_ = cmd.Process.Kill()
		<-ended
		if m.kills++; over {
			return
		}
	}
}

// compare holds the entries of a partition, read with the library alone, against what log dump
// prints, and returns how many there are.
func (m *mirror) compare(id int) int {
	m.Helper()
	var want bytes.Buffer
	if err := tools.Dump(&want, m.r.data, tools.DumpOptions{Partition: id, JSON: true}); err != nil {
		m.Fatal(err)
	}
	got := mirroredLines(m.T, filepath.Join(m.into, fmt.Sprintf("%02d", id)))
	if bytes.Equal(got, want.Bytes()) {
		return bytes.Count(got, []byte("\n"))
	}
	g, w := bytes.SplitAfter(got, []byte("\n")), bytes.SplitAfter(want.Bytes(), []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			m.Fatalf("partition %d: entry %d of %d is\n%s, and event %d of %d\n%s", id, i, len(g), g[i], i, len(w), w[i])
		}
	}
	m.Fatalf("partition %d: %d entries of %d events", id, len(g), len(w))
	return 0
}

// mirroredLines are the entries of a log, read with the library.
func mirroredLines(t *testing.T, dir string) []byte {
	t.Helper()
	l, err := wal.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	var all bytes.Buffer
	for i := first; i <= last && i > 0; i++ {
		text, err := l.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(append(text, '\n'))
	}
	return all.Bytes()
}
