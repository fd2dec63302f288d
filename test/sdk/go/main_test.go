package sdkgo

import (
	"bytes"
	"flag"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

// parallel is how many tests may run at a time: all that there are. TestScenarios has a limit of
// its own.
const parallel = "1000"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	said := &diagnostics{}
	slog.SetDefault(slog.New(slog.NewTextHandler(said, nil)))
	goleak.VerifyTestMain(watched{m, said}, goleak.IgnoreAnyFunction(renewer))
}

// renewer is the SDK's goroutine that renews a token. When two goroutines are the first to use a
// sender, the SDK (1.11.0, AMQPLinksImpl.Get) makes its links twice, since it does not look again
// once it has the lock, and never ends the renewers of those that were first.
const renewer = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3"

// diagnostics shows the errors and the protocol faults of the brokers in this process, and counts
// the latter. The SDK is unmodified, so each is a failure. A lab looks at the brokers that are
// processes of their own.
type diagnostics struct{ faults atomic.Int32 }

// Write takes one line.
func (d *diagnostics) Write(line []byte) (int, error) {
	fault := bytes.Contains(line, []byte("protocol fault"))
	if fault {
		d.faults.Add(1)
	}
	if fault || bytes.Contains(line, []byte("level=ERROR")) {
		return os.Stderr.Write(line)
	}
	return len(line), nil
}

// watched is tests that fail if there was a protocol fault.
type watched struct {
	tests interface{ Run() int }
	said  *diagnostics
}

// Run runs the tests and returns the exit code.
func (w watched) Run() int {
	code := w.tests.Run()
	if code == 0 && w.said.faults.Load() > 0 {
		code = 1
	}
	return code
}

// TestDiagnostics shows that a protocol fault makes tests fail that are well otherwise, and nothing
// else does.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{`level=INFO msg="servicebus: protocol fault"`: 1, `level=INFO msg="certificate read"`: 0} {
		said := &diagnostics{}
		if _, err := said.Write([]byte(line + "\n")); err != nil {
			t.Error(err)
		}
		if code := (watched{passing{}, said}).Run(); code != want {
			t.Errorf("exit code %d after %s", code, line)
		}
	}
}

// passing is tests that pass.
type passing struct{}

func (passing) Run() int { return 0 }
