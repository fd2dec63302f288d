package sdkgo

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// atOnce is how many tests may run at a time. Nearly all they do is wait.
const atOnce = "200"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	goleak.VerifyTestMain(m)
}
