package format

import (
	"os"
	"regexp"
	"slices"
	"testing"

	logformat "github.com/ledgerbus/ledgerbus/log/format"
)

// TestCapabilities: the reader in Python knows the words of namespace.json that this version knows,
// all of them and no other.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("read.py")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`KNOWN_CAPABILITIES = \(([^)]*)\)`).FindSubmatch(text)
	if list == nil {
		t.Fatal("read.py has no KNOWN_CAPABILITIES")
	}
	var words []string
	for _, w := range regexp.MustCompile(`"([a-z-]+)"`).FindAllSubmatch(list[1], -1) {
		words = append(words, string(w[1]))
	}
	if !slices.Equal(words, logformat.Capabilities) {
		t.Errorf("read.py knows %q; want %q", words, logformat.Capabilities)
	}
}
