package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxContextsFile = 1 << 20
	maxContextName  = 64
)

// contexts are named connections in a file that only its owner may read, because it contains keys
// (reliability.md S31).
type contexts struct {
	// the context used unless a flag or the environment names another namespace
	Current string                  `yaml:"current,omitempty"`
	Named   map[string]savedContext `yaml:"contexts"`

	file string
}

// A savedContext is one of these connections. It prints without its key.
type savedContext struct {
	ConnectionString string `yaml:"connection-string"`
	CAFile           string `yaml:"ca-file,omitempty"`
}

// Format implements [fmt.Formatter], so that no verb prints the key.
func (savedContext) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// contextsFile returns the name of the file with the contexts.
func contextsFile() (string, error) {
	if name := os.Getenv("LEDGERBUS_CONTEXTS"); name != "" {
		return name, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", usageError{fmt.Errorf("contexts: no configuration folder: %w; name a file in LEDGERBUS_CONTEXTS", err)}
	}
	return filepath.Join(dir, "ledgerbus", "contexts.yaml"), nil
}

// readContexts reads the contexts. Without a file there are none.
func readContexts() (*contexts, error) {
	name, err := contextsFile()
	if err != nil {
		return nil, err
	}
	known := &contexts{file: name, Named: map[string]savedContext{}}
	src, err := readPrivate(name, maxContextsFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return known, nil
	case err != nil:
		return nil, usageError{fmt.Errorf("contexts: %w", err)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	dec.KnownFields(true)
	if err := dec.Decode(known); err != nil && !errors.Is(err, io.EOF) {
		// the decoder's error may quote a key
		return nil, usageError{fmt.Errorf("contexts: %s is not a file written by ledgerbus context set", name)}
	}
	if known.Named == nil {
		known.Named = map[string]savedContext{}
	}
	return known, nil
}

// get returns the context with a name.
func (cs *contexts) get(name string) (savedContext, error) {
	saved, ok := cs.Named[name]
	if !ok {
		return saved, usageError{fmt.Errorf("unknown context %q; %s", name, cs.choice())}
	}
	return saved, nil
}

func (cs *contexts) choice() string {
	if len(cs.Named) == 0 {
		return "create one with ledgerbus context set NAME"
	}
	return "saved contexts: " + strings.Join(cs.names(), ", ")
}

func (cs *contexts) names() []string { return slices.Sorted(maps.Keys(cs.Named)) }

// write replaces the whole file, so that a crash leaves either the old or the new one.
func (cs *contexts) write() error {
	src, err := yaml.Marshal(cs)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(cs.file), 0o700); err != nil {
		return err
	}
	return writePrivate(cs.file, src)
}

func checkContextName(name string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)
	}
	if name == "" || len(name) > maxContextName || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return usageError{fmt.Errorf("%q is not a valid context name: use 1 to %d letters, digits or . - _", name, maxContextName)}
	}
	return nil
}

// readPrivate reads a file that contains keys. It refuses a file that other users may read
// (reliability.md S31).
func readPrivate(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s contains keys and other users can read it (mode %04o); run chmod 600 on it", name, mode)
	}
	return readBounded(f, name, limit)
}

func readBounded(r io.Reader, name string, limit int64) ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(src)) > limit {
		err = fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return src, err
}
