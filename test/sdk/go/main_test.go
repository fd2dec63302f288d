package sdkgo

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// parallel is how many tests may run at a time: all that there are. TestScenarios has a limit of its own.
const parallel = "1000"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	goleak.VerifyTestMain(m)
}
