package broker_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

// recordedRequest is a request of a recording with the expected answer.
type recordedRequest struct {
	line, method, path, body string
	headers                  []string
	status                   int
	fragments                []string
}

// layout matches the formatting that a recording adds to a body for readers.
var layout = regexp.MustCompile(`\n +`)

// recorded reads a recording of requests, whose first lines explain its format.
func recorded(t *testing.T, file string) (list []recordedRequest) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	answered := true
	for n, line := range strings.Split(string(text), "\n") {
		parts := strings.Split(line, " | ")
		switch {
		case strings.HasPrefix(line, "C> "):
			words := strings.Fields(parts[0])
			r := recordedRequest{line: file + ":" + strconv.Itoa(n+1), method: words[1], path: words[2]}
			for _, h := range parts[1:] {
				name, value, _ := strings.Cut(h, ": ")
				r.headers = append(r.headers, name, value)
			}
			list, answered = append(list, r), false
		case strings.HasPrefix(line, "S> "):
			r := &list[len(list)-1]
			if r.status, err = strconv.Atoi(strings.Fields(line)[1]); err != nil {
				t.Fatalf("%s:%d: %v", file, n+1, err)
			}
			r.fragments, answered = parts[1:], true
		case strings.HasPrefix(line, "   ") && answered:
			list[len(list)-1].fragments = append(list[len(list)-1].fragments, strings.TrimPrefix(strings.TrimSpace(line), "| "))
		case strings.HasPrefix(line, "   "):
			list[len(list)-1].body += "\n" + line
		}
	}
	for i := range list {
		list[i].body = layout.ReplaceAllString(list[i].body, "")
	}
	return list
}

// MA-166: requests of .NET's administration client are answered as recorded.
func TestDotnetAdministration(t *testing.T) {
	t.Parallel()
	b := harness.Start(t)
	for _, r := range recorded(t, "testdata/dotnet-atom.txt") {
		status, text := ask(t, b, "http", r.method, r.path, r.body, r.headers...)
		if status != r.status {
			t.Errorf("%s: %s %s: status %d, want %d\n%s", r.line, r.method, r.path, status, r.status, text)
		}
		for _, f := range r.fragments {
			if !strings.Contains(text, f) {
				t.Errorf("%s: %s %s: no %s in\n%s", r.line, r.method, r.path, f, text)
			}
		}
	}
}
